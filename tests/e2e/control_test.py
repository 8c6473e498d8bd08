#!/usr/bin/env python3
"""Other commands than the one that started a run: hgtrain status, logs, attach and stop. usage: control_test.py HGTRAIN"""
import fcntl
import json
import os
import pathlib
import shutil
import signal
import socket
import tempfile
import unittest

from job import Job, JobTest, read_until, wait_for

FOREVER = ('--steps', 1_000_000, '--training.eval_interval', 0, '--checkpoint.save_interval', 1000)


class Train(JobTest):
    def status(self, run):
        return json.loads(self.job.call('status', run, '--json'))

    def test_status_says_how_far_a_run_is_and_stop_saves_it(self):
        process = self.job.start_training('runs/a/run', *FOREVER)
        self.job.wait_for_step('runs/a/run', 3, process)
        wait_for(lambda: 'phase' in self.status('runs/a/run')['ranks'][1], process)
        status = self.status('runs/a/run')
        self.assertEqual((status['state'], status['total_steps'], status['restarts']), ('running', 1_000_000, 0))
        self.assertGreaterEqual(status['step'], 3)
        self.assertEqual(status['launcher']['pid'], process.pid)
        self.assertEqual([rank['rank'] for rank in status['ranks']], [0, 1])
        self.assertGreater(status['eta_s'], 0)
        self.assertIn('loss', status)
        text = self.job.call('status')  # the newest one below runs/, as quickstart leaves it
        for part in 'run         runs/a/run\n', f'state       running, by the launcher with pid {process.pid} on ', '/1000000  loss ':
            self.assertIn(part, text)
        viewer = self.job.start('attach')
        read_until(viewer.stderr, '/1000000  loss ')  # a step after the one of the status
        said = self.job.call('stop', 'runs/a/run')
        verdict = self.job.verdict('runs/a/run')
        self.assertIn(f'runs/a/run: stopped, exit code 75: stopped after step {verdict["finished_steps"]}\n', said)
        process.communicate()
        self.assertEqual(process.returncode, 75)
        out, err = viewer.communicate()
        self.assertEqual((out, viewer.returncode), ('', 75))
        for line in 'finishing this step, then saving\n', f'stopped after step {verdict["finished_steps"]}\n', 'resume with: ':
            self.assertIn(line, err)
        self.assertEqual(self.job.checkpoints('runs/a/run'), [f'step_{verdict["finished_steps"]:08}'])
        self.assertFalse((self.job.folder / 'runs/a/run/control.sock').exists())
        status = self.status('runs/a/run')
        self.assertEqual((status['state'], status['step']), ('stopped', verdict['finished_steps']))
        self.assertIn('stopped, exit code 75', self.job.call('stop', 'runs/a/run'))

    def start_unread(self, run):
        """A run of which the console is a full pipe."""
        process = self.job.start_training(run, *FOREVER, '--steps_per_print', 1)
        self.addCleanup(process.kill)
        fcntl.fcntl(process.stderr, fcntl.F_SETPIPE_SZ, 4096)
        self.job.wait_for_step(run, 100, process)
        wait_for(lambda: len(self.console(run)) > 8192, process)
        return process

    def console(self, run):
        """What logs/console.log says after the command line."""
        return (self.job.folder / run / 'logs/console.log').read_text().split('\n', 1)[1]

    def test_a_run_whose_console_nobody_reads_can_be_stopped(self):
        for stop in lambda _: self.job.call('stop', 'a'), lambda process: process.send_signal(signal.SIGTERM):
            process = self.start_unread('a')
            stop(process)
            self.assertEqual(process.wait(timeout=600), 75)
            verdict = self.job.verdict('a')
            self.assertEqual(self.job.checkpoints('a'), [f'step_{verdict["finished_steps"]:08}'])
            self.assertIn(f'stopped after step {verdict["finished_steps"]}\n', self.console('a'))
            self.assertIn('resume with: ', self.console('a'))
            process.communicate()
            shutil.rmtree(self.job.folder / 'a')

    def test_what_nobody_read_for_a_while_is_shown_when_somebody_reads(self):
        process = self.start_unread('a')
        process.send_signal(signal.SIGTERM)
        shown = process.communicate()[1]
        self.assertEqual((process.returncode, shown), (75, self.console('a')))
        self.assertIn('resume with: ', shown)

    def test_logs_of_a_run_that_runs_and_of_one_that_has_ended(self):
        log = (self.job.folder / 'whole/logs/rank_1.log').read_text()
        self.assertEqual(self.job.call('logs', 'whole', '--rank', 1), log)
        self.assertEqual(self.job.call('logs', 'whole', '--rank', '1', '-n', 2), ''.join(log.splitlines(True)[-2:]))
        both = self.job.call('logs', 'whole', '-f')  # it has ended, so there is nothing to wait for
        self.assertEqual(''.join(line[5:] for line in both.splitlines(True) if line.startswith('[r1] ')), log)
        self.assertIn('whole/logs has no log of rank 7', self.job.call('logs', 'whole', '--rank', 7, exit_code=2))
        self.assertIn('whole/logs has no log of rank 7', self.job.call('logs', 'whole', '--rank', '1,7', exit_code=2))
        process = self.job.start_training('logged', *FOREVER)
        self.job.wait_for_step('logged', 3, process)
        reader = self.job.start('logs', 'logged', '-f', '-n', 0)
        read_until(reader.stdout, '[r1] ')
        self.job.call('stop', 'logged')
        process.communicate()
        out, err = reader.communicate()
        self.assertEqual((reader.returncode, err), (0, ''))
        last = (self.job.folder / 'logged/logs/rank_0.log').read_text().splitlines()[-1]
        self.assertIn(f'[r0] {last}\n', out)

    def test_stop_now_kills_it(self):
        process = self.job.start_training('now', *FOREVER)
        self.job.wait_for_step('now', 1, process)
        said = self.job.call('stop', 'now', '--now')
        self.assertIn('now: stopped, exit code 130: stopped at once by hgtrain stop --now\n', said)
        process.communicate()
        self.assertEqual(process.returncode, 130)
        self.assertEqual(self.job.checkpoints('now'), [])

    def test_a_launcher_that_was_killed_or_does_not_answer(self):
        process = self.job.start_training('killed', *FOREVER)
        self.job.wait_for_step('killed', 1, process)
        process.send_signal(signal.SIGSTOP)
        said = self.job.call('status', 'killed', exit_code=6)
        self.assertIn('the launcher of killed has not answered for 10 s', said)
        self.assertIn(f'on {socket.gethostname()}, `kill -CONT {process.pid}`', said)
        process.kill()
        process.communicate()
        self.assertIn('killed: its launcher ended without reporting how', self.job.call('status', 'killed'))
        self.assertNotIn(None, self.status('killed').values())  # what is not known is left out
        self.assertTrue((self.job.folder / 'killed/control.sock').exists())
        process = self.job.start_training('killed', *FOREVER, '--resume', 'auto')  # takes the socket over
        wait_for(lambda: self.status('killed')['state'] == 'running', process)
        self.assertIn('killed: stopped', self.job.call('stop', 'killed'))
        process.communicate()

    def test_a_job_that_cannot_start_has_failed(self):
        (self.job.folder / 'none').mkdir()
        self.job.call('launch', '--log_dir', 'none', '--', 'no-such-program', exit_code=2)
        status = self.status('none')
        self.assertEqual((status['state'], status['exit_code']), ('failed', 2))
        self.assertIn("no-such-program", status['reason'])

    def test_a_detached_run_continues_without_its_shell(self):
        said = self.job.train('apart', *FOREVER, '--detach')
        self.assertIn('detached: the run continues without this shell\n  hgtrain status apart, attach apart', said)
        self.assertNotIn('step 1000000', said)
        launcher = self.status('apart')['launcher']['pid']
        self.assertEqual(os.getsid(launcher), launcher)
        self.assertIn('apart: stopped, exit code 75', self.job.call('stop', 'apart'))
        self.assertEqual(self.job.verdict('apart')['exit_code'], 75)
        self.assertIn('resume with: ', (self.job.folder / 'apart/logs/detached.log').read_text())
        said = self.job.train('apart', *FOREVER, '--detach', '--resume', 'auto')
        self.assertIn('resuming from step ', said)
        self.job.call('stop', 'apart', '--now')

    def test_a_detached_run_that_cannot_begin_says_so_in_its_shell(self):
        said = self.job.train('never', '--detach', '--data.train_data_path', 'missing', exit_code=2)
        self.assertIn('there is no token file missing', said)
        self.assertNotIn('detached', said)
        self.assertNotIn('needs the data, too', said)
        said = self.job.train('never', '--hosts', 'nowhere:2', '--data.train_data_path', 'missing', exit_code=2)
        self.assertIn('the machine on which this is typed needs the data, too; with --detach, only the hosts do', said)
        said = self.job.train('never', '--detach', '--dry_run', exit_code=2)
        self.assertIn('leave out --detach', said)

    def test_a_folder_that_is_not_a_run_is_refused(self):
        self.assertIn('there is no folder missing', self.job.call('status', 'missing', exit_code=2))
        (self.job.folder / 'empty').mkdir()
        self.assertIn('empty is not the folder of a run', self.job.call('stop', 'empty', exit_code=2))
        said = self.job.call('launch', '--log_dir', 'whole', '--', 'true', exit_code=2)
        self.assertIn('--log_dir whole is the folder of a training run', said)


class Launch(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.job = Job.__new__(Job)
        self.job.folder = pathlib.Path(self.temporary.name)

    def test_the_commands_work_for_any_program(self):
        program = 'trap "echo bye; exit 3" TERM; echo ready; while :; do sleep 0.01; done'
        process = self.job.start('launch', '--num_workers', 2, '--log_dir', 'logs', '--', 'sh', '-c', program)
        both = [self.job.folder / f'logs/rank_{rank}.log' for rank in range(2)]
        wait_for(lambda: all(log.exists() and log.read_text() == 'ready\n' for log in both), process)
        status = json.loads(self.job.call('status', 'logs', '--json'))
        self.assertEqual((status['state'], len(status['ranks'])), ('running', 2))
        os.kill(status['ranks'][1]['pid'], 0)
        self.assertNotIn('phase', status['ranks'][1])
        self.assertIn('running\n', self.job.call('status', 'logs'))
        self.assertEqual(self.job.call('logs', 'logs'), '[r0] ready\n[r1] ready\n')
        viewer = self.job.start('attach', 'logs')
        read_until(viewer.stderr, 'attached to logs; Ctrl-C detaches')
        leaver = self.job.start('attach', 'logs')
        read_until(leaver.stderr, 'attached')
        leaver.send_signal(signal.SIGINT)
        self.assertEqual((leaver.communicate()[1], leaver.returncode), ('\ndetached: the run continues\n', 0))
        second = self.job.call('launch', '--log_dir', 'logs', '--', 'true')
        self.assertIn('another job writes its logs to logs too', second)
        said = self.job.call('stop', 'logs')
        self.assertIn('logs: stopped, exit code 3: stopped by hgtrain stop', said)
        process.communicate()
        self.assertEqual(process.returncode, 3)
        seen = viewer.communicate()
        self.assertEqual(viewer.returncode, 3)
        self.assertIn(seen[0], ('[ranks 0-1] bye\n', '[r0] bye\n[r1] bye\n', '[r1] bye\n[r0] bye\n'))
        for line in 'hgtrain: waiting up to 30 s for the programs to end\n', 'logs: stopped, exit code 3: stopped by hgtrain stop\n':
            self.assertIn(line, seen[1])
        self.assertIn('logs is not running here: stopped, exit code 3', self.job.call('attach', 'logs', exit_code=2))
        self.assertEqual(self.job.read_json('logs', 'run.json')['verdict'], 'stopped')
        self.assertNotIn('step ', self.job.call('status', 'logs'))  # it is not known

    def test_a_detached_program_continues_without_its_shell(self):
        said = self.job.call('launch', '--detach', '--', 'true', exit_code=2)
        self.assertIn('--detach needs --log_dir', said)
        self.job.call('launch', '--detach', '--log_dir', 'logs', '--', 'no-such-program', exit_code=2)
        said = self.job.call('launch', '--detach', '--log_dir', 'logs', '--', 'sh', '-c',
                             'until [ -e go ]; do sleep 0.01; done; echo gone')
        self.assertIn('detached: the run continues without this shell', said)
        viewer = self.job.start('attach', 'logs')
        read_until(viewer.stderr, 'attached')
        (self.job.folder / 'go').touch()
        self.assertEqual((viewer.communicate()[0], viewer.returncode), ('gone\n', 0))
        self.assertEqual((self.job.folder / 'logs/detached.log').read_text(), 'gone\n')

    def test_a_detached_program_that_no_command_could_reach_is_refused(self):
        first = self.job.start('launch', '--log_dir', 'logs', '--', 'sh', '-c', 'echo ready; exec sleep 1000')
        read_until(first.stdout, 'ready')
        said = self.job.call('launch', '--detach', '--log_dir', 'logs', '--', 'true', exit_code=2)
        self.assertIn('the run folder logs is in use by another hgtrain\n  hint: `hgtrain status logs` shows it; wait for it or stop it, or take another one: --log_dir logs-2\n',
                      said)
        self.job.call('stop', '--now', 'logs')
        first.communicate()

    def test_readers_that_take_nothing_do_not_delay_a_flood(self):
        size = 200_000_000
        program = f'echo ready; until [ -e go ]; do sleep 0.01; done; yes 0123456789 | head -c {size}; echo; echo the end'
        process = self.job.start('launch', '--log_dir', 'logs', '--', 'sh', '-c', program)
        read_until(process.stdout, 'ready')
        viewer = self.job.start('attach', 'logs')
        read_until(viewer.stderr, 'attached')
        follower = self.job.start('logs', 'logs', '-f')
        read_until(follower.stdout, 'ready')
        (self.job.folder / 'go').touch()
        console = process.communicate()[0]  # the viewer and the follower are not read
        self.assertEqual((process.returncode, len(console)), (0, size + len('\nthe end\n')))
        out, err = viewer.communicate()
        self.assertLess(len(out), size)
        self.assertEqual(viewer.returncode, 0)
        self.assertIn('the last lines may be missing here', err)
        follower.stdout.close()
        follower.stderr.close()
        follower.wait()


if __name__ == '__main__':
    unittest.main(verbosity=2)
