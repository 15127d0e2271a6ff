"""A stand-in for cuQuantum."""
