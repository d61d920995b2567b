"""The inspect Job's program: looks at one model directory and says in its termination message what it found."""
