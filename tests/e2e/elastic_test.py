"""Jobs on hosts that are lost, replaced, and come back."""
import contextlib
import json
import os
import re
import shutil
import signal
import tempfile
import time

from hosts import PROGRAM, HostsCase, main, sh


class ElasticTest(HostsCase):
    names = 'abc'

    def setUp(self):
        if not (self.work / 'job').exists():
            self.prepare('job', 3)
        self.folder = self.work / 'job'
        if not (self.folder / 'whole').exists():
            self.train('a slots=1\nb slots=1\n', 'whole')

    def arguments(self, hostfile, run, *args, steps=400):
        """Of a run that saves every twentieth part of its steps."""
        (self.folder / f'hosts_{run}').write_text(hostfile)
        return ('--config', 'config.json', '--device', 'cpu', '--run_dir', run, '--steps', str(steps), '--steps_per_print', str(steps // 8),
                '--training.eval_interval', str(steps // 80), '--checkpoint.save_interval', str(steps // 20),
                '--hostfile', f'hosts_{run}', *args)

    def train(self, hostfile, run, *args, **options):
        return self.run_on_hosts(*self.arguments(hostfile, run, *args), hosts=None, cwd=self.folder, command=('train',), **options)

    def start_training(self, hostfile, run, *args, **options):
        return self.start(*self.arguments(hostfile, run, *args, **options), hosts=None, cwd=self.folder, command=('train',))

    def wait_until(self, condition, process):
        deadline = time.monotonic() + 300
        while not condition():
            self.assertIsNone(process.poll(), 'it has ended')
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def wait_for_step(self, run, step, process):
        self.wait_until(lambda: (self.folder / run / 'metrics.jsonl').exists() and len(self.lines(run)) >= step, process)

    def lines(self, run):
        return [line for line in (self.folder / run / 'metrics.jsonl').read_text().splitlines(keepends=True) if line.endswith('\n')]

    def kill_agent(self, host):
        """The host's connection ends, as if it had lost its power; it can be called again."""
        for pid in self.hosts.agents_of(host):
            os.kill(pid, signal.SIGKILL)

    def finish(self, process, exit_code=0):
        out, err = process.communicate(timeout=300)
        self.assertEqual(process.returncode, exit_code, out + err)
        return err

    def hosts_of(self, run):
        return [worker['host'] for worker in json.loads((self.folder / run / 'run.json').read_text())['workers']]

    def test_a_spare_takes_the_ranks_of_a_lost_host_and_the_curve_is_the_same(self):
        for lost, hosts in (('b', 'ac'), ('a', 'cb')):
            run = f'without_{lost}'
            process = self.start_training('a slots=1\nb slots=1\nc slots=1 spare\n', run)
            self.wait_for_step(run, 30, process)
            self.kill_agent(lost)
            err = self.finish(process)
            self.assertIn(f'host {lost} is lost', err)
            self.assertIn(f'host c takes the ranks of host {lost}', err)
            self.assertEqual(self.losses(self.folder, run), self.losses(self.folder, 'whole'))
            self.assertEqual(self.hosts_of(run), list(hosts))

    def assert_close_to_whole(self, run):
        """The same steps, samples and batches: only the order of sums differs, whose effect grows with the steps."""
        for (step, loss, eval_loss), (_, one, eval_one) in zip(self.losses(self.folder, run), self.losses(self.folder, 'whole'), strict=True):
            rounding = 1e-6 if step <= 100 else 1e-4
            self.assertAlmostEqual(loss, one, delta=rounding * one, msg=f'step {step}')
            if eval_one is not None:
                self.assertAlmostEqual(eval_loss, eval_one, delta=rounding * eval_one, msg=f'step {step}')

    def samples(self, run, ranks, step):
        """The samples of a step, of all ranks together."""
        logs = [(self.folder / run / f'logs/rank_{rank}.log').read_text() for rank in range(ranks)]
        found = [re.findall(rf' step {step} samples \[([\d,]*)\]', log)[-1] for log in logs]
        return sorted(int(sample) for samples in found for sample in samples.split(','))

    def test_a_job_continues_without_a_lost_host_on_the_same_samples(self):
        for lost, left in (('b', 'a'), ('a', 'b')):
            run = f'on_{left}'
            process = self.start_training('a slots=1\nb slots=1\n', run, '--nnodes', '1:2')
            self.wait_for_step(run, 30, process)
            with self.hosts.unreachable(lost):
                err = self.finish(process)
            self.assertIn(f'host {lost} is lost', err)
            self.assertIn(f'running 1 rank on 1 of 2 hosts: {left}', err)
            self.assertIn('on 1 worker: gradient_accumulation_steps: 8, was 4', err)
            self.assert_close_to_whole(run)
            self.assertEqual(self.samples(run, 1, step=400), self.samples('whole', 2, step=400))
            self.assertEqual(self.hosts_of(run), [left])

    def test_a_host_that_comes_back_joins_after_a_checkpoint(self):
        disk = self.work / 'disk'
        shutil.copytree(self.folder, disk, ignore=lambda *_: [name for name in os.listdir(self.folder) if not name.startswith('data.')])
        process = self.start_training('a slots=1\nb slots=1\n', 'joined', '--nnodes', '1:2', '--data.train_data_path', str(disk / 'data'),
                                      '--checkpoint.keep_last_n', '2', steps=100_000)
        self.wait_for_step('joined', 100, process)
        with self.hosts.without('b', disk):
            with self.hosts.unreachable('b'):
                self.wait_until(lambda: self.hosts_of('joined') == ['a'], process)
            said = self.read_until(f'host b cannot be used yet: it has no token file {disk}/data\n', process)
        self.assertNotIn('so that hosts can join', said)
        self.wait_until(lambda: self.hosts_of('joined') == ['a', 'b'], process)
        joined_at = len(self.lines('joined'))
        self.wait_for_step('joined', joined_at + 100, process)
        process.send_signal(signal.SIGTERM)
        err = self.finish(process, exit_code=75)
        self.assertIn('host b can be used now: it joins after the next checkpoint', err)
        self.assertEqual([m['step'] for m in map(json.loads, self.lines('joined'))], list(range(1, len(self.lines('joined')) + 1)))
        for (step, loss, _), (_, one, _) in zip(self.losses(self.folder, 'joined')[:100], self.losses(self.folder, 'whole')):
            self.assertAlmostEqual(loss, one, delta=1e-6 * one, msg=f'step {step}')

    def test_a_host_with_which_the_job_cannot_start_again_is_left_out(self):
        process = self.start_training('a slots=1\nb slots=1\n', 'in_vain', '--nnodes', '1:2', '--checkpoint.keep_last_n', '2', steps=100_000)
        self.wait_for_step('in_vain', 100, process)
        with contextlib.ExitStack() as stack:
            with self.hosts.unreachable('b'):
                self.wait_until(lambda: self.hosts_of('in_vain') == ['a'], process)
                stack.enter_context(self.hosts.without('b', self.folder / 'in_vain'))
                sh('nsenter', '-t', self.hosts.first_process('b'), '-m', '-p', 'touch', self.folder / 'in_vain/logs')
            said = self.read_until('host b is left out for the rest of the job: ', process)
            self.assertRegex(said, 'before a checkpoint: .*in_vain/logs is not a folder that logs can be written to')
            self.wait_until(lambda: self.hosts_of('in_vain') == ['a'], process)
            left_at = len(self.lines('in_vain'))
            self.wait_for_step('in_vain', left_at + 100, process)
        process.send_signal(signal.SIGTERM)
        self.finish(process, exit_code=75)

    def test_a_host_whose_ranks_cannot_be_reached_is_left_out(self):
        process = self.start_training('a slots=1 iface=fast\nb slots=1 iface=fast\n', 'unreached', '--nnodes', '1:2', '--checkpoint.keep_last_n', '2',
                                      steps=100_000)
        self.wait_for_step('unreached', 100, process)
        with self.hosts.unreachable('b', self.hosts.fast_bridge):
            with self.hosts.unreachable('b'):
                self.wait_until(lambda: self.hosts_of('unreached') == ['a'], process)
            said = self.read_until('host b is left out for the rest of the job: ', process)
            self.assertRegex(said, r'before a checkpoint: rank 1 failed: cannot connect to rank 0 at ')
            self.wait_until(lambda: self.hosts_of('unreached') == ['a'], process)
            left_at = len(self.lines('unreached'))
            self.wait_for_step('unreached', left_at + 100, process)
        process.send_signal(signal.SIGTERM)
        self.finish(process, exit_code=75)

    def test_a_host_whose_data_differ_is_left_out(self):
        size = 80 << 20
        with tempfile.TemporaryDirectory(dir='/dev/shm') as common:  # each host has its own
            make = f'mkdir -p {common}; truncate -s {size} {common}/large.bin'
            for call in (['sh', '-c'], *([self.hosts.folder / 'bin/ssh', host] for host in 'ab')):
                sh(*call, make)
            process = self.start_training('a slots=1\nb slots=1\n', 'other_data', '--nnodes', '1:2', '--checkpoint.keep_last_n', '2',
                                          '--data.train_data_path', f'{common}/large.bin', '--model.vocab_size', '64', steps=100_000)
            self.wait_for_step('other_data', 100, process)
            with self.hosts.unreachable('b'):
                self.wait_until(lambda: self.hosts_of('other_data') == ['a'], process)
                sh('nsenter', '-t', self.hosts.first_process('b'), '-m', 'sh', '-c',
                   f'printf 1 | dd of={common}/large.bin bs=1 seek={size // 512 - 7000} conv=notrunc')
            said = self.read_until('host b is left out for the rest of the job: ', process)
            self.assertRegex(said, "host b is left out for the rest of the job: rank 1 failed: the data on b are not the same as on rank 0's host")
            self.wait_until(lambda: self.hosts_of('other_data') == ['a'], process)
            left_at = len(self.lines('other_data'))
            self.wait_for_step('other_data', left_at + 100, process)
            process.send_signal(signal.SIGTERM)
            self.finish(process, exit_code=75)

    def test_a_spare_that_cannot_start_its_ranks_is_passed_over(self):
        process = self.start_training('a slots=1\nb slots=1\nc slots=1 spare\n', 'no_spare')
        self.wait_for_step('no_spare', 30, process)
        with self.hosts.without('c', self.folder / 'no_spare'):
            sh('nsenter', '-t', self.hosts.first_process('c'), '-m', '-p', 'touch', self.folder / 'no_spare/logs')
            self.kill_agent('b')
            said = self.read_until('host c cannot be used yet: ', process)
            self.assertIn('host c takes the ranks of host b', said)
            self.assertRegex(said, 'no_spare/logs is not a folder that logs can be written to')
            self.finish(process)
        self.assertEqual(self.losses(self.folder, 'no_spare'), self.losses(self.folder, 'whole'))
        self.assertEqual(self.hosts_of('no_spare'), ['a', 'b'])

    def test_a_job_with_too_few_hosts_ends_with_6_and_can_be_resumed(self):
        process = self.start_training('a slots=1\nb slots=1\n', 'too_few', '--nnodes', '2:2', '--elastic_timeout', '35')
        self.wait_for_step('too_few', 30, process)
        with self.hosts.unreachable('b'):
            err = self.finish(process, exit_code=6)
        self.assertIn('too few hosts can be used', err)
        self.assertRegex(err, r'host b is lost: [^\0]*\n  no restart: host b cannot be used: .*\n  hint: .*; --elastic_timeout SECONDS waits for longer')
        self.train('a slots=1\nb slots=1\n', 'too_few', '--resume', 'auto')
        self.assertEqual(self.losses(self.folder, 'too_few'), self.losses(self.folder, 'whole'))

    def test_a_restart_waits_for_a_host_without_a_network(self):
        process = self.start_training('a slots=1\nb slots=1\n', 'waits', '--max_restarts', '1')
        self.wait_for_step('waits', 30, process)
        with self.hosts.without('b', self.work):
            with self.hosts.unreachable('b'):
                said = self.read_until('too few hosts can be used', process)
            self.read_until(f'host b cannot be used yet: it has no folder {self.folder}: No such file or directory', process)
        self.assertRegex(said, r'waiting up to 5\d\d s, until \d\d:\d\d:\d\d, for b \(ssh: connect to host .*\); called again every 15 s\n')
        self.finish(process)
        self.assertEqual(self.losses(self.folder, 'waits'), self.losses(self.folder, 'whole'))

    def test_a_training_that_is_stopped_while_it_waits_to_restart_can_be_resumed(self):
        process = self.start_training('a slots=1\nb slots=1\n', 'fenced', '--max_restarts', '1')
        self.wait_for_step('fenced', 30, process)
        self.kill_agent('b')
        self.read_until('after which no process of the job can be left on b', process)
        status = json.loads(sh(PROGRAM, 'status', self.folder / 'fenced', '--json').stdout)
        self.assertEqual((status['state'], status['restarts'], status['waits_for']), ('restarting', 0, ['b']))
        self.assertRegex(status['reason'], '^host b is lost: ')
        process.send_signal(signal.SIGUSR2)
        self.read_until('SIGUSR2 has no effect, because no rank runs now', process)
        process.send_signal(signal.SIGTERM)
        self.assertIn('stopped by SIGTERM while it waited to restart', self.finish(process, exit_code=75))
        self.train('a slots=1\nb slots=1\n', 'fenced', '--resume', 'auto')
        self.assertEqual(self.losses(self.folder, 'fenced'), self.losses(self.folder, 'whole'))


if __name__ == '__main__':
    main()
