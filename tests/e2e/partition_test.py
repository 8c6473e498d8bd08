"""Jobs on two hosts whose network fails for a while, whose connections the user has made before, and whose processes stand still."""
import contextlib
import os
import signal
import subprocess
import time
import unittest

from hosts import HAVE_TIME_SPACES, HostsCase, main

# Notes until when each attempt has run on this rank. The first attempt does not end by itself.
BEATS = ('while :; do echo $TORCHELASTIC_RESTART_COUNT $(date +%s.%N) >> beats_$RANK; '
         '[ $TORCHELASTIC_RESTART_COUNT = 0 ] || exit 0; sleep 0.1; done')


class PartitionTest(HostsCase):
    def beats(self, where, attempt):
        """Of each rank, when it has noted something."""
        out = []
        for rank in range(2):
            file = where / f'beats_{rank}'
            lines = file.read_text().splitlines(keepends=True) if file.exists() else []
            out.append([float(line.split()[1]) for line in lines if line.startswith(f'{attempt} ') and line.endswith('\n')])
        return out

    def start_ready(self, script):
        """A job of a rank on each host, both of which have said that they are ready."""
        process = self.start('--', 'sh', '-c', script, hosts='a:1,b:1')
        for _ in range(2):
            self.assertIn('ready', process.stdout.readline())
        return process

    def goes_on_after_a_cut(self, seconds, process, where):
        cut = time.time()
        with self.hosts.unreachable('b'):
            time.sleep(seconds)
        while process.poll() is None and not self.beats(where, 1)[0]:
            if all(beats[-1] > cut + 18 for beats in self.beats(where, 0)):  # if b was lost, its rank has ended by then
                return True
            self.assertLess(time.time() - cut, 100)
            time.sleep(0.1)
        return False

    def test_a_network_that_fails_for_a_while_never_leads_to_two_attempts_at_once(self):
        # After 5 s TCP repeats in time what was lost, after 14 s that may be too late, and after 20 s it is.
        for cuts in ((5, 14), (20,)):
            where = self.work / f'cuts_{len(cuts)}'
            where.mkdir()
            process = self.start('--max_restarts', '1', '--', 'sh', '-c', BEATS, hosts='a:1,b:1', cwd=where)
            self.wait_for(lambda: all(self.beats(where, 0)), process)
            go_on = [self.goes_on_after_a_cut(seconds, process, where) for seconds in cuts]
            self.assertEqual(go_on[0], cuts[0] == 5)
            if go_on[-1]:
                process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 143 if go_on[-1] else 0, err)
            if not go_on[-1]:
                self.assertRegex(err, r'host b is lost: .*; restarting all 2 ranks \(1 of 1\)')
                first, second = self.beats(where, 0), self.beats(where, 1)
                self.assertLess(max(beats[-1] for beats in first), min(beats[0] for beats in second))

    @contextlib.contextmanager
    def master_of(self, name):
        """The user's connection to the host, which ssh then uses."""
        config = self.hosts.folder / 'ssh_config'
        before = config.read_text()
        config.write_text(f'Host {name}\n ControlMaster auto\n ControlPath {self.hosts.folder}/master_%n\n ControlPersist 600\n{before}')
        master = subprocess.Popen([self.hosts.folder / 'bin/ssh', '-M', '-N', '-o', 'ControlPersist=no', name], stdin=subprocess.DEVNULL)
        try:
            self.wait_for(lambda: (self.hosts.folder / f'master_{name}').exists(), master)
            yield master
        finally:
            config.write_text(before)
            master.kill()
            master.wait()

    def test_a_job_uses_the_users_connection_and_ends_with_it(self):
        with self.master_of('b') as master:
            out, _ = self.run_on_hosts('--', 'hostname', hosts='a:1,b:1')
            self.assertEqual(sorted(out.splitlines()), ['[r0] a', '[r1] b'])
            self.assertIsNone(master.poll())
            process = self.start_ready('trap "echo saved $RANK; exit 75" INT; echo ready $RANK; while :; do sleep 0.01; done')
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
            self.assertEqual((process.returncode, out.count('saved')), (75, 2), err)
            self.wait_until_nothing_is_left()
            self.assertIsNone(master.poll())
            process = self.start_ready('echo ready $RANK; exec sleep 1000')
            killed = time.monotonic()
            master.kill()
            _, err = process.communicate(timeout=60)
            self.assertLess(time.monotonic() - killed, 10)
            self.assertEqual(process.returncode, 6, err)
            self.assertIn('error: host b is lost: ', err)
            self.assertIn('the other rank was stopped', err)
            self.wait_until_nothing_is_left()

    def test_a_worker_on_another_host_that_is_stopped_is_named(self):
        folder = self.prepare('stopped', 3)
        process = self.start('--config', 'config.json', '--device', 'cpu', '--run_dir', 'run', '--steps', '1000000',
                             '--distributed.timeout_minutes', '0.1', cwd=folder, command=('train',), hosts='a:1,b:1')
        metrics = folder / 'run/metrics.jsonl'
        self.wait_for(lambda: metrics.exists() and metrics.read_text().count('\n') > 20, process)
        worker, = [pid for pid, line in self.hosts.processes_of('b') if b'hgtrain-worker\0' in line]
        stopped = time.monotonic()
        os.kill(worker, signal.SIGSTOP)
        _, err = process.communicate(timeout=120)
        self.assertLess(time.monotonic() - stopped, 30)
        self.assertEqual(process.returncode, 5, err)
        self.assertRegex(err, r'rank 1 of 2 \(pid \d+ on b\) has hung')

    @unittest.skipUnless(HAVE_TIME_SPACES, 'the kernel has no time namespaces')
    def test_the_first_of_two_failures_is_known_although_the_clocks_of_the_hosts_differ(self):
        out, _ = self.run_on_hosts('--', 'sh', '-c', 'echo $(cut -d. -f1 /proc/uptime)', hosts='a:1,b:1')
        uptimes = dict(line.split() for line in out.splitlines())
        self.assertGreater(int(uptimes['[r0]']) - int(uptimes['[r1]']), 5000)
        for first, host in enumerate('ab'):
            process = self.start_ready(f'echo ready $RANK; until [ -e go_{first}_$RANK ]; do sleep 0.01; done; '
                                       f'[ $RANK = {first} ] && exit 7; sleep 0.3; exit 8')
            process.send_signal(signal.SIGSTOP)  # it hears of both at once
            for rank in first, 1 - first:
                (self.work / f'go_{first}_{rank}').touch()
                # The guard of a rank ends once it has noted when that has ended.
                self.wait_for(lambda: not any(line.startswith(b'guard-of-') for _, line in self.hosts.processes_of('ab'[rank])))
            process.send_signal(signal.SIGCONT)
            _, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 7, err)
            self.assertRegex(err, rf'error: rank {first} of 2 \(pid \d+ on {host}\) exited with code 7')
            self.assertIn('the other rank ended with an error, too', err)


if __name__ == '__main__':
    main()
