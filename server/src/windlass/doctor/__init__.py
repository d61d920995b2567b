"""`windlass doctor`: would a start go well here, and if not, what is to be done? Looks only."""
