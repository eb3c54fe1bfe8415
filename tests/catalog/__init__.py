"""The suite with which the catalog tests itself: see checks.py (what is checked), bench.py (on what), test_planted.py (the suite's own test)."""
