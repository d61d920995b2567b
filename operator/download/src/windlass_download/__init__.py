"""The download Job's program: puts one model from a hub onto a volume, whole and verified, or says why not.

The operator's image has it beside the operator, since its Job runs that image. The two meet at arguments, exit code,
termination message and the facts port; neither imports the other.
"""
