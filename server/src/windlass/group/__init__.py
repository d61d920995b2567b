"""Several machines that serve one model: what the environment tells a member, how the members meet, and end as one."""
