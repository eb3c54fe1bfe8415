"""The suite with which the catalog tests itself: checks.py says what, bench.py on what, test_planted.py tests the suite."""
