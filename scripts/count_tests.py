#!/usr/bin/env python3
"""Totals of a Meson test log: Catch2 programs count by test case, others as one. Exit 1 where one failed."""
import json
import re
import sys

passed = failed = skipped = 0
for line in open(sys.argv[1], errors='replace'):
    t = json.loads(line)
    out = t.get('stdout', '')
    ok = re.search(r'All tests passed \(\d+ assertions? in (\d+) test cases?\)', out)
    mixed = re.search(r'test cases:\s*(\d+) \|(?:\s*(\d+) passed \|)?\s*(\d+) failed', out)
    if t['result'] == 'SKIP':
        skipped += 1
    elif t['result'] == 'OK':
        passed += int(ok[1]) if ok else 1
    elif mixed:
        passed += int(mixed[2] or 0)
        failed += int(mixed[3])
    else:
        failed += 1
print(f'{passed} passed, {failed} failed' + (f', {skipped} skipped' if skipped else ''))
sys.exit(failed > 0 or passed == 0)
