"""The inspect Job's program: looks at one model directory and says in its termination message what it found.

`__main__` starts it inside the Job's pod; no other package imports it.
"""
