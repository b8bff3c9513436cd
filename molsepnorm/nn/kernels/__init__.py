"""Fast versions of operations of the network; tests compare each with its plain version."""
