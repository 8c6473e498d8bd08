#!/usr/bin/env python3
"""What the supervisor of system calls sees and does. usage: supervisor_test.py HGTRAIN"""
import errno
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import unittest

import faults
import supervisor

PROGRAM = str(pathlib.Path(sys.argv.pop(1)).resolve())
PREPARE = [PROGRAM, 'data', 'prepare', '--input', 'text.txt', '--out', 'data/text']


class SupervisorTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        (self.folder / 'text.txt').write_text('Some words.\n' * 1000)

    def run_with(self, fault):
        outcome = supervisor.supervise(PREPARE, self.folder, fault.decide, fault.attach)
        self.assertTrue(fault.hit, fault)
        return outcome

    def test_a_program_without_a_fault_ends_as_usual(self):
        outcome = supervisor.supervise(PREPARE, self.folder)
        self.assertEqual((outcome.status, outcome.left_over, outcome.shared_memory), (0, [], []), outcome.err)
        self.assertTrue((self.folder / 'data/text.json').exists())

    def test_a_call_fails_with_the_error_that_is_asked_for(self):
        outcome = self.run_with(faults.Fault('error', 'launcher', 'fsync', 1, errno.ENOSPC))
        self.assertEqual(outcome.status, 4, outcome.err)
        self.assertIn('No space left on device', outcome.err)

    def test_a_file_system_without_locks_is_not_called_another_process(self):
        outcome = self.run_with(faults.Fault('error', 'launcher', 'flock', 1, errno.ENOLCK))
        self.assertEqual(outcome.status, 4, outcome.err)
        self.assertIn('cannot lock data/text.bin.partial: No locks available', outcome.err)

    def test_half_a_write_is_made_and_the_rest_follows(self):
        supervisor.supervise(PREPARE, self.folder)
        whole = (self.folder / 'data/text.bin').read_bytes()
        for name in 'write', 'read':
            shutil.rmtree(self.folder / 'data')
            outcome = self.run_with(faults.Fault('half', 'launcher', name, 1, lasts=True))
            self.assertEqual(outcome.status, 0, outcome.err)
            self.assertEqual((self.folder / 'data/text.bin').read_bytes(), whole)

    def test_a_signal_comes_before_the_call_is_made(self):
        fault = faults.Fault('kill', 'launcher', 'mkdir', 1, killed=['launcher'])
        self.assertEqual(self.run_with(fault).status, -signal.SIGKILL)
        self.assertFalse((self.folder / 'data').exists())

    def test_a_process_that_outlives_the_command_is_named_and_killed(self):
        outcome = supervisor.supervise(['sh', '-c', 'setsid sleep 1000 & exit 3'], self.folder, leaving_s=0.5)
        self.assertEqual(outcome.status, 3)
        self.assertEqual(len(outcome.left_over), 1)

    def test_a_command_that_does_not_end_is_a_hang(self):
        with self.assertRaises(supervisor.Hang):
            supervisor.supervise(['sleep', '1000'], self.folder, limit_s=0.5, leaving_s=5)

    def test_what_is_left_in_shared_memory_is_named(self):
        path = f'/dev/shm/hgtrain_supervisor_test_{os.getpid()}'
        self.addCleanup(os.unlink, path)
        outcome = supervisor.supervise(['sh', '-c', f'echo > {path}'], self.folder)
        self.assertEqual(outcome.shared_memory, [path])

    def test_a_command_that_is_not_there_ends_with_127(self):
        self.assertEqual(supervisor.supervise(['./nothing'], self.folder).status, 127)


if __name__ == '__main__':
    if not supervisor.is_available():
        sys.exit(77)
    unittest.main(verbosity=2)
