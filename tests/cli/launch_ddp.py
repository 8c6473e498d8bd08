#!/usr/bin/env python3
"""A PyTorch DDP script runs unchanged under `hgtrain launch`, through a restart. usage: launch_ddp.py HGTRAIN
HGTRAIN_TEST_PYTHON names a Python with torch; without one the test is skipped."""
import os
import pathlib
import subprocess
import sys

python = os.environ.get('HGTRAIN_TEST_PYTHON', sys.executable)
if subprocess.run([python, '-c', 'import torch.distributed as d; assert d.is_gloo_available()'],
                  stderr=subprocess.DEVNULL).returncode != 0:
    print('no Python with torch')
    sys.exit(77)
script = pathlib.Path(__file__).with_name('ddp.py')
run = subprocess.run([sys.argv[1], 'launch', '--num_workers', '2', '--max_restarts', '1', '--', python, script],
                     capture_output=True, text=True)
print(run.stdout, run.stderr)
weights = [line.split('weights ')[1] for line in run.stdout.splitlines() if 'weights' in line]
ok = (run.returncode == 0 and len(weights) == 2 and weights[0] == weights[1] and 'rank 1 fails once' in run.stderr
      and 'restarting all 2 ranks (1 of 1)' in run.stderr)
sys.exit(not ok)
