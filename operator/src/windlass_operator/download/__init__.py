"""The download Job's program: puts one model from a hub onto a volume, whole and verified, or says why not."""
