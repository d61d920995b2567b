"""Who asks: tokens, cookies, one client for each user, and what the user may do."""
