"""cuquantum.bindings."""
