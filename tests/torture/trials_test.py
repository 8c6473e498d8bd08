#!/usr/bin/env python3
"""A trial fails if a checkpoint, the metrics or the manners are not as promised. usage: trials_test.py HGTRAIN"""
import json
import pathlib
import sys
import tempfile
import unittest

import faults
import supervisor
import trials

PROGRAM = str(pathlib.Path(sys.argv.pop(1)).resolve())
FAULT = faults.Fault('error', 'launcher', 'openat', 1, 5)


class TrialsTest(unittest.TestCase):
    def train(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.shared = pathlib.Path(temporary.name)
        trials.Preparing(PROGRAM, self.shared)
        self.training = trials.Training(PROGRAM, self.shared, 'one', 1, 3, 0)
        self.folder = self.shared / 'trial'
        self.training.lay_out(self.folder)
        self.ended = self.training.run(self.folder, self.training.arguments)

    def check(self):
        self.training.check_saved(self.folder, self.ended, set())
        self.training.check_end(self.folder)

    def assert_fails(self, text):
        with self.assertRaisesRegex(trials.Failed, text):
            self.check()

    def test_what_a_run_leaves_is_judged(self):
        self.train()
        self.check()
        checkpoints = self.folder / 'run/checkpoints'
        weights = checkpoints / 'step_00000006/model.safetensors'
        whole = weights.read_bytes()
        weights.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        self.assert_fails('step 6 differs: model.safetensors')
        weights.unlink()
        self.assert_fails('step 6 differs: model.safetensors .missing.')
        weights.write_bytes(whole)
        weights.parent.rename(self.folder / 'aside')
        self.assert_fails('step 6 was announced as saved, and is gone')
        (self.folder / 'aside').rename(weights.parent)
        (self.folder / 'run/run.json.tmp-12345678').touch()
        self.assert_fails('left in the run folder: run.json.tmp-12345678')
        (self.folder / 'run/run.json.tmp-12345678').unlink()
        metrics = self.folder / 'run/metrics.jsonl'
        lines = [json.loads(line) for line in metrics.read_text().splitlines()]
        lines[4]['loss'] *= 1 + 1e-15
        metrics.write_text(''.join(json.dumps(line) + '\n' for line in lines))
        self.assert_fails('metrics differ from step 5')

    def test_how_a_run_ends_is_judged(self):
        def judge(status, err, left_over=()):
            trials.Work.check_manners(supervisor.Outcome(status, '', err, list(left_over), []), FAULT)
        judge(4, 'hgtrain: error: cannot open x: Input/output error')
        for text, *outcome in (('exit status 1', 1, 'error: x'), ('exit status 134', 134, ''), ('without an error', 4, ''),
                               ('a bug in hgtrain', 4, 'error: x; this is a bug in hgtrain'), ('left over: rank 0', 0, '', ['rank 0'])):
            with self.assertRaisesRegex(trials.Failed, text):
                judge(*outcome)


if __name__ == '__main__':
    if not supervisor.is_available():
        sys.exit(77)
    unittest.main(verbosity=2)
