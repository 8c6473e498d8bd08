#!/usr/bin/env python3
"""scripts/quickstart as a user runs it: the losses fall, the validation loss ends below a trigram model's on the same
split, each step occurs once in the metrics although the run was stopped and resumed, and the sample is text."""
import json
import pathlib
import re
import subprocess
import sys

from trigram import trigram_loss

ROOT = pathlib.Path(__file__).resolve().parents[2]

done = subprocess.run([ROOT / 'scripts/quickstart', *sys.argv[1:]], capture_output=True, text=True)
print(done.stdout, done.stderr, sep='\n')
assert done.returncode == 0, f'exit status {done.returncode}'

folder = ROOT / re.search(r'All files are in (\S+):', done.stdout)[1]
config = json.loads((folder / 'run/config.json').read_text())
run = json.loads((folder / 'run/run.json').read_text())
steps = [json.loads(line) for line in (folder / 'run/metrics.jsonl').read_text().splitlines()]
evaluations = [step['eval_loss'] for step in steps if 'eval_loss' in step]
trigram = trigram_loss(str(folder / 'data/text'), config['training']['seq_length'], config['data']['valid_fraction'])
sample = done.stdout.split('== 5/5')[1].split('\n', 1)[1].split('\n== done')[0]

print(f'training {steps[0]["loss"]:.4f} to {steps[-1]["loss"]:.4f}, validation {evaluations[0]:.4f} to '
      f'{evaluations[-1]:.4f}, trigram {trigram:.4f}')
assert [step['step'] for step in steps] == list(range(1, config['training']['train_iters'] + 1))
assert steps[-1]['loss'] < steps[0]['loss'] and evaluations[-1] < evaluations[0]
assert evaluations[-1] < trigram
assert run['verdict'] == 'done' and run['exit_code'] == 0 and run['start_step'] > 0 and run['resumed_from']
assert len(sample.split()) > 10, sample
