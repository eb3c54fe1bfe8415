"""The test suite of catalog parts: checks.py has the checks, bench.py the inputs, test_planted.py tests the suite."""
