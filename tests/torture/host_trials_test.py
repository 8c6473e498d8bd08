#!/usr/bin/env python3
"""How the end of a job on two hosts is judged. usage: host_trials_test.py HGTRAIN"""
import pathlib
import random
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'e2e'))
import host_trials  # noqa: E402
from host_trials import Fault, Outcome, Programs, PyTorch, Training  # noqa: E402
from trials import Failed  # noqa: E402

DONE = '[ranks 0-3] done\n'


def fault(action, target, rank=3):
    out = Fault(action, target, 'ab'[rank // 2], rank, 0.5, hold=action in ('hold', 'blink'))
    out.at = 1
    return out


class HostTrialsTest(unittest.TestCase):
    def judge(self, what, status, err='', out='', seconds=0.1, restarts=0):
        work = Programs('', None, 'programs')
        work.restarts = restarts
        work.judge(what, Outcome(status, out, err, seconds))

    def assert_fails(self, text, *args, **options):
        with self.assertRaisesRegex(Failed, text):
            self.judge(*args, **options)

    def test_a_rank_that_is_killed_is_named_soon_with_its_host(self):
        killed = fault('kill', 'rank')
        verdict = 'rank 3 of 4 (pid 7 on b) was killed by SIGKILL'
        self.judge(killed, 137, verdict)
        self.assert_fails('exit status 6', killed, 6, verdict)
        self.assert_fails('nothing says', killed, 137, verdict.replace('on b', 'on a'))
        self.assert_fails('nothing says', killed, 137, verdict.replace('rank 3', 'rank 2'))
        self.assert_fails('it took 9.0 s', killed, 137, verdict, seconds=9)

    def test_a_host_that_is_lost_is_named_at_once_or_after_the_lease(self):
        verdict = 'host b is lost: its connection has ended'
        for target in ('agent', 'ssh', 'sshd'):
            self.judge(fault('kill', target), 6, verdict)
            self.judge(fault('kill', target), 3, 'host b cannot be used: it has ended')
            self.assert_fails('nothing says', fault('kill', target), 6, 'host a is lost')
            self.judge(fault('stop', target), 6, verdict, seconds=15)
        self.judge(fault('cut', 'link'), 6, verdict, seconds=15)
        self.assert_fails('it took 60.0 s', fault('cut', 'link'), 6, verdict, seconds=60)

    def test_hosts_give_up_a_launcher_that_is_stopped(self):
        self.judge(fault('stop', 'launcher'), 6, 'host a is lost: the stream has ended')
        self.judge(fault('stop', 'launcher'), 3, 'host b cannot be used: the stream has ended')
        self.assert_fails('nothing says', fault('stop', 'launcher'), 6, '')

    def test_what_passes_does_no_harm(self):
        for what in (fault('hold', 'agent'), fault('blink', 'link'), fault('stop', 'guard')):
            self.judge(what, 0, out=DONE)
            self.assert_fails('exit status 6, though it should have gone on', what, 6)
        self.judge(fault('kill', 'agent'), 0, out=DONE, restarts=1)

    def test_a_job_that_succeeds_has_done_everything(self):
        self.assert_fails('exit status 0', fault('kill', 'rank'), 0, out='[ranks 0-2] done\n')
        self.judge(fault('kill', 'rank'), 0, out='[ranks 0,2] done\n[r1] done\n[r3] done\n')
        self.judge(fault('kill', 'rank'), 0, out='[ranks 0-1,3] done\n[r2] done\n')
        self.assert_fails('exit status 6 of a job that was complete', fault('kill', 'agent'), 6, out=DONE)

    def test_a_training_that_had_nothing_to_do_is_complete(self):
        work = Training.__new__(Training)
        work.restarts = 0
        work.judge(fault('blink', 'link'), Outcome(0, '', 'nothing to do: 1200 of 1200 steps done before', 4))
        with self.assertRaisesRegex(Failed, 'exit status 0, though'):
            work.judge(fault('blink', 'link'), Outcome(0, '', 'step 1199/1200 ', 4))

    def test_a_network_comes_back_long_before_the_lease_ends(self):
        drawn = [host_trials.choose(random.Random(seed)) for seed in range(500)]
        self.assertEqual({fault.hold for fault in drawn if fault.action == 'blink'}, {1, 4, 6})
        self.assertEqual({fault.hold for fault in drawn if fault.action == 'kill'}, {0})

    def test_a_stopped_rank_ends_the_job_at_the_latest_when_those_that_wait_for_it_reach_pytorchs_timeout(self):
        work = PyTorch.__new__(PyTorch)  # without its undisturbed run
        work.seconds = 10
        stopped = 'rank 0 has been stopped by a signal'
        for status in (1, 5):
            work.judge(fault('stop', 'rank', 0), Outcome(status, '', stopped, 45))
        with self.assertRaisesRegex(Failed, 'it took 60.0 s'):
            work.judge(fault('stop', 'rank', 0), Outcome(5, '', stopped, 60))


if __name__ == '__main__':
    unittest.main(verbosity=2)
