#!/usr/bin/env python3
"""Totals of a Meson test log as "N passed, N failed": Catch2 programs count by test case, others as one.
The exit status is 1 if a test failed or none passed."""
import json
import re
import sys

ALL_PASSED = re.compile(r'All tests passed \(\d+ assertions? in (\d+) test cases?\)')
SOME_FAILED = re.compile(r'test cases:\s*\d+ \|(?:\s*(\d+) passed \|)?\s*(\d+) failed')


def count(test):
    """(passed, failed) of one program."""
    said = test.get('stdout', '')
    if test['result'] == 'SKIP':
        return 0, 0
    if test['result'] == 'OK':
        cases = ALL_PASSED.search(said)
        return (int(cases[1]) if cases else 1), 0
    cases = SOME_FAILED.search(said)
    return (int(cases[1] or 0), int(cases[2])) if cases else (0, 1)


def read(path):
    try:
        with open(path, errors='replace') as log:
            return [json.loads(line) for line in log]
    except (OSError, ValueError) as error:
        print(f'{path}: {error}', file=sys.stderr)
        return [{'name': 'the log', 'result': 'ERROR'}]


tests = read(sys.argv[1])
passed, failed = (sum(column) for column in zip(*map(count, tests))) if tests else (0, 0)
for test in tests:
    if test['result'] == 'SKIP':
        print(f'skipped: {test["name"]}')
print(f'{passed} passed, {failed} failed')
sys.exit(failed > 0 or passed == 0)
