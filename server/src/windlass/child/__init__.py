"""A child process and its output, as the supervisor and a group's head run one."""
