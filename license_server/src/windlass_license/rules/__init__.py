"""What licensing decides: licenses, leases, the gate, the audit log, limits of peers. Pure: the time is given."""
