"""What ptahk costs, measured: ``python -m benchmarks``, or ``make bench``."""
