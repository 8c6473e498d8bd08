"""Jobs on two hosts whose launcher moves to the first of them: --detach, and commands for such a run."""
import contextlib
import json
import os
import re
import signal
import subprocess
import tempfile
import time
import unittest

from hosts import MARK, PROGRAM, HostsCase, command_lines, main, sh

SECRET = 'hf_' + 'DeTaCh' * 3
WAIT = 'echo $RANK on $(hostname); until [ -e go ]; do sleep 0.01; done; echo gone'


class DetachTest(HostsCase):
    def there(self, host, *command):
        """What a command prints that is typed on the host."""
        line = f'cd {self.work} && {subprocess.list2cmdline(map(str, command))}'
        return sh(self.hosts.folder / 'bin/ssh', host, line).stdout

    def status_there(self, run):
        return json.loads(self.there('a', PROGRAM, 'status', run, '--json'))

    def calls_from_here(self):
        return [line for _, line, _ in command_lines() if b'agent --command' in line and str(self.hosts.folder).encode() in line]

    def wait_for_end(self, run):
        """Of a run whose folder is seen here."""
        while json.loads((self.work / run / 'run.json').read_text())['verdict'] == 'running':
            time.sleep(0.01)
        return json.loads((self.work / run / 'run.json').read_text())

    def test_a_job_continues_on_its_first_host_if_this_machine_loses_its_network(self):
        _, err = self.run_on_hosts('--detach', '--log_dir', 'apart', '--', 'sh', '-c', WAIT)
        self.assertIn('detached: the run continues on a\n', err)
        self.assertEqual(self.calls_from_here(), [])
        status = self.status_there('apart')
        self.assertEqual((status['state'], status['launcher']['host']), ('running', 'a'))
        self.assertEqual([(rank['rank'], rank['host']) for rank in status['ranks']], [(0, 'a'), (1, 'a'), (2, 'b'), (3, 'b')])
        sh('ip', 'addr', 'del', f'{self.hosts.net}.254/24', 'dev', self.hosts.bridge)
        try:
            (self.work / 'go').touch()
            self.assertEqual(self.wait_for_end('apart')['exit_code'], 0)
        finally:
            sh('ip', 'addr', 'add', f'{self.hosts.net}.254/24', 'dev', self.hosts.bridge)
            (self.work / 'go').unlink()
        self.assertEqual((self.work / 'apart/rank_3.log').read_text(), '3 on b\ngone\n')
        self.assertRegex((self.work / 'apart/detached.log').read_text(), 'gone')

    def test_a_first_host_that_loses_its_network_blames_no_other(self):
        self.run_on_hosts('--detach', '--log_dir', 'cut', '--', 'sleep', '1000')
        with self.hosts.unreachable('a'):
            self.assertEqual(self.wait_for_end('cut')['exit_code'], 6)
        said = (self.work / 'cut/detached.log').read_text()
        self.assertIn('nothing has come from any host (b) for 15 s', said)
        self.assertIn('hint: the network of this machine, a, has failed: its interface eth0 has no link', said)

    def test_it_is_stopped_on_its_first_host(self):
        self.run_on_hosts('--detach', '--log_dir', 'stopped', '--', 'sleep', '1000', hosts='a')
        self.assertIn('stopped, exit code 143', self.there('a', PROGRAM, 'stop', 'stopped'))

    @contextlib.contextmanager
    def folder_of_each(self, name):
        """A folder of its own on this machine and on each host."""
        folder = self.work / name
        folder.mkdir()
        with contextlib.ExitStack() as stack:
            for host in self.names:
                stack.enter_context(self.hosts.without(host, folder))
            yield folder

    def command(self, folder, *words, exit_code=0):
        """What a command prints that is typed here."""
        return ''.join(self.run_on_hosts(*words[1:], command=words[:1], hosts=None, cwd=folder, exit_code=exit_code))

    def test_status_logs_attach_and_stop_reach_it_from_the_machine_that_started_it(self):
        with self.folder_of_each('laptop') as folder:
            _, err = self.run_on_hosts('--detach', '--log_dir', 'runs/logs', '--', 'sh', '-c', WAIT, cwd=folder)
            self.assertIn(f'stop runs/logs reach it, from here and from there in {folder}; it also prints into runs/logs/detached.log there', err)
            self.assertEqual(os.listdir(folder / 'runs/logs'), ['detached.json'])
            status = json.loads(self.command(folder, 'status', folder / 'runs/logs/', '--json'))
            self.assertEqual((status['state'], status['run'], status['launcher']['host']), ('running', 'runs/logs', 'a'))
            follower = self.start('runs/logs', '--rank', '1', '-f', command=('logs',), hosts=None, cwd=folder)
            self.assertEqual(follower.stdout.readline(), '1 on a\n')
            follower.send_signal(signal.SIGINT)
            self.assertEqual((follower.communicate(timeout=60)[1], follower.returncode), ('', 130))
            self.assertEqual(self.command(folder / 'runs', 'logs', 'logs', '--rank', '1', '-n', '1'), '1 on a\n')
            self.assertIn('no log of rank 7', self.command(folder, 'logs', '--rank', '7', exit_code=2))  # the newest one
            viewer = self.start('runs/logs', command=('attach',), hosts=None, cwd=folder)
            self.assertEqual(viewer.stderr.readline(), 'attached to runs/logs; Ctrl-C detaches\n')
            viewer.send_signal(signal.SIGINT)
            self.assertIn('detached: the run continues', viewer.communicate(timeout=60)[1])
            self.assertEqual(viewer.returncode, 0)
            self.assertIn('runs/logs: stopped, exit code 143', self.command(folder, 'stop', 'runs/logs'))
            self.assertIn('stopped, exit code 143', self.command(folder, 'status'))
            self.assertIn('runs/logs is not running here: stopped', self.command(folder, 'attach', exit_code=2))

            with self.hosts.unreachable('a'):
                said = self.command(folder, 'status', exit_code=3)
            self.assertIn('host a cannot be used: ', said)
            self.assertIn('in runs/logs, a run that --detach has started on host a\n', said)
            (folder / 'runs/logs/detached.json').write_text('{"host": "a"}\n')
            self.assertIn('runs/logs/detached.json is damaged', self.command(folder, 'stop', 'runs/logs', exit_code=4))

    def test_a_run_that_is_seen_here_is_not_asked_on_its_host_once_it_has_ended(self):
        self.run_on_hosts('--detach', '--log_dir', 'seen', '--', 'sh', '-c', WAIT)
        self.assertTrue((self.work / 'seen/detached.json').exists())
        self.assertIn('stopped', self.command(self.work, 'stop', 'seen'))
        with self.hosts.unreachable('a'):
            self.assertIn('stopped, exit code 143', self.command(self.work, 'status', 'seen'))
            for _ in range(2):  # now the run in the folder is this machine's
                self.run_on_hosts('--log_dir', 'seen', '--', 'true', hosts=None)
                self.assertIn('done, exit code 0', self.command(self.work, 'status', 'seen'))

    def test_a_run_that_is_seen_here_is_read_here_if_its_host_cannot_be_reached(self):
        self.run_on_hosts('--detach', '--log_dir', 'read', '--', 'sh', '-c', f'echo hello; {WAIT}', hosts='a:1')
        socket, hidden = self.work / 'read/control.sock', self.work / 'read/hidden.sock'
        socket.rename(hidden)  # as another machine sees it
        with self.hosts.unreachable('a'):
            for command, says in ('logs', 'hello\n'), ('status', 'unknown: its launcher ran on a; ask on a\n'):
                said = self.command(self.work, command, 'read')
                self.assertIn('host a cannot be used: ', said)
                self.assertIn('so only the files in read are read here, as they are now\n', said)
                self.assertIn(says, said)
            self.command(self.work, 'stop', 'read', exit_code=3)
        hidden.rename(socket)
        launcher = json.loads(self.command(self.work, 'status', 'read', '--json'))['launcher']
        self.there('a', 'kill', '-9', launcher['pid'])
        self.assertIn('killed: its launcher ended', self.there('a', PROGRAM, 'status', 'read'))  # without ssh to itself

    def test_a_host_may_be_named_otherwise_than_it_calls_itself(self):
        self.run_on_hosts('--detach', '--log_dir', 'address', '--', 'sh', '-c', WAIT, hosts='six:1')  # b
        socket, hidden = self.work / 'address/control.sock', self.work / 'address/hidden.sock'
        socket.rename(hidden)
        with self.hosts.unreachable('b'):
            self.assertIn('unknown: its launcher ran on b', self.command(self.work, 'status', 'address'))
        hidden.rename(socket)
        self.assertIn('stopped', self.there('b', PROGRAM, 'stop', 'address'))
        with self.hosts.unreachable('b'):
            self.assertIn('stopped, exit code 143', self.command(self.work, 'status', 'address'))

    def test_what_is_here_of_an_earlier_run_hides_no_run_that_goes_on(self):
        with self.folder_of_each('fetched') as folder:
            for ends_before in (True, False):
                self.run_on_hosts('--detach', '--log_dir', 'logs', '--', 'sh', '-c', WAIT, hosts='a:1', cwd=folder)
                if ends_before:
                    self.command(folder, 'stop', 'logs')
                (folder / 'logs/run.json').write_text(self.there('a', 'cat', folder / 'logs/run.json'))
                if not ends_before:
                    self.command(folder, 'stop', 'logs')
                self.run_on_hosts('--detach', '--log_dir', 'logs', '--', 'sh', '-c', WAIT, hosts='a:1', cwd=folder)
                os.utime(folder / 'logs/run.json', (time.time() + 600, time.time() + 600))  # by the clock of a
                self.assertIn('running, by the launcher', self.command(folder, 'status', 'logs'))
                with self.hosts.unreachable('a'):
                    for command in 'status', 'logs', 'stop':
                        self.command(folder, command, 'logs', exit_code=3)
                self.assertIn('stopped, exit code 143', self.command(folder, 'stop', 'logs'))

    def test_a_run_that_starts_here_does_not_hide_one_on_another_host(self):
        with self.folder_of_each('again') as folder:
            for _ in range(2):
                self.run_on_hosts('--detach', '--log_dir', 'logs', '--', 'sleep', '1000', hosts='a:1', cwd=folder)
                for hosts, flags in (None, []), ('b:1', []), ('b:1', ['--detach']):
                    _, err = self.run_on_hosts(*flags, '--log_dir', 'logs', '--', 'true', cwd=folder, hosts=hosts, exit_code=2)
                    self.assertIn('logs has a run that --detach has started on host a\n  hint: `hgtrain status logs` shows it', err)
                    self.assertIn('to start another one: --log_dir logs-2, or remove logs/detached.json if that run has ended\n', err)
                self.assertIn('stopped, exit code 143', self.command(folder, 'stop', 'logs'))

    def test_a_folder_that_cannot_be_written_here_loses_only_the_commands_from_here(self):
        with self.folder_of_each('full') as folder:
            (folder / 'logs').touch()
            _, err = self.run_on_hosts('--detach', '--log_dir', 'logs', '--', 'true', cwd=folder)
            self.assertIn('hgtrain: status, attach, logs and stop reach the run only on host a: ', err)

    def test_config_and_hostfile_come_from_here_and_losses_are_those_of_one_machine(self):
        folder = self.prepare('moved', 3)
        self.train_on_hosts(folder, 'here')
        (folder / 'only_here').mkdir()
        (folder / 'only_here/config.json').write_bytes((folder / 'config.json').read_bytes())
        (folder / 'only_here/hostfile').write_text('a slots=2\nb slots=2\n')
        with self.hosts.without('a', folder / 'only_here'), self.hosts.without('b', folder / 'only_here'):
            _, err = self.run_on_hosts('--config', 'only_here/config.json', '--device', 'cpu', '--run_dir', 'moved/there', '--detach',
                                       '--data.train_data_path', 'moved/data', cwd=folder, hosts=None, exit_code=2,
                                       command=('train', '--hostfile', 'only_here/hostfile'))
            self.assertIn('there is no token file moved/data', err)
            self.assertTrue(err.endswith('\nhgtrain: so says host a, on which --detach starts the launcher\n'), err)
            self.run_on_hosts('--config', 'only_here/config.json', '--device', 'cpu', '--run_dir', 'there', '--detach', cwd=folder,
                              hosts=None, command=('train', '--hostfile', 'only_here/hostfile'))
            self.assertEqual(self.wait_for_end('moved/there')['verdict'], 'done')
        self.assertEqual(self.losses(folder, 'there'), self.losses(folder, 'here'))
        run = json.loads((folder / 'there/run.json').read_text())
        self.assertEqual(run['command'][:4], ['hgtrain', 'train', '--hostfile', 'only_here/hostfile'])

    def test_variables_travel_and_nothing_of_them_is_in_a_command_line(self):
        env = {'HF_TOKEN': SECRET, 'OTHER': SECRET[::-1]}
        self.run_on_hosts('--detach', '--log_dir', 'secret', '--export', 'OTHER', '--', 'sh', '-c', f'echo $HF_TOKEN,$OTHER; {WAIT}', env=env)
        lines = [line for _, line, _ in command_lines()]
        for secret in env.values():
            self.assertFalse([line for line in lines if secret.encode() in line])
        logs = [self.work / f'secret/rank_{rank}.log' for rank in range(4)]
        self.wait_for(lambda: all(log.exists() and '\n' in log.read_text() for log in logs))
        self.there('a', PROGRAM, 'stop', 'secret')
        for log in logs:
            self.assertIn(f'{SECRET},{SECRET[::-1]}\n', log.read_text())

    def hidden(self, name, file):
        """The commands that make a file empty on a host, and bring it back."""
        inside = ['nsenter', '-t', self.hosts.first_process(name), '-m', '-p']
        return [*inside, 'mount', '--bind', '/dev/null', file], [*inside, 'umount', '--lazy', file]

    def test_without_a_key_the_first_host_cannot_reach_the_others_unless_the_agent_is_forwarded(self):
        hide, show = self.hidden('a', self.hosts.folder / 'key')
        sh(*hide)
        agent = dict(re.findall(r'(SSH_\w+)=([^;]+);', sh('ssh-agent', '-s').stdout))
        config = self.hosts.folder / 'ssh_config'
        before = config.read_text()
        try:
            _, err = self.run_on_hosts('--detach', '--log_dir', 'denied', '--', 'echo', 'started', exit_code=3)
            self.assertRegex(err, r'host b cannot be used from a, where the launcher runs: .*Permission denied')
            self.assertIn('ForwardAgent', err)
            self.assertNotIn('detached', err)
            sh('ssh-add', self.hosts.folder / 'key', env={**os.environ, **agent})
            config.write_text('ForwardAgent yes\n' + before)
            self.run_on_hosts('--detach', '--log_dir', 'forwarded', '--', 'sleep', '1000', env=agent)
            self.there('a', PROGRAM, 'stop', 'forwarded')
        finally:
            config.write_text(before)
            os.kill(int(agent['SSH_AGENT_PID']), signal.SIGTERM)
            sh(*show)

    def test_problems_before_the_start_are_reported_here(self):
        with tempfile.TemporaryDirectory(dir='/dev/shm') as folder:  # each host has its own
            _, err = self.run_on_hosts('--detach', '--log_dir', 'logs', '--', 'true', cwd=folder, exit_code=2)
        self.assertIn(f'host a has no folder {folder}', err)
        _, err = self.run_on_hosts('--detach', '--log_dir', 'logs', '--', 'no-such-program', exit_code=2)
        self.assertIn("there is no program 'no-such-program' in PATH", err)
        _, err = self.run_on_hosts('--detach', '--log_dir', 'logs', '--', 'true', hosts='shut,a', exit_code=3)
        self.assertIn('host shut cannot be used: ssh: connect to host', err)
        _, err = self.run_on_hosts('--detach', '--config', 'missing.json', hosts='a:1', command=('train',), exit_code=2)
        self.assertIn('there is no config missing.json on ', err)
        self.assertIn("if it lies on rank 0's host", err)

    def connecting_job(self):
        """A job whose launcher on a waits for b, which cannot be reached."""
        process = self.start('--detach', '--log_dir', 'connecting', '--', 'echo', 'started')
        self.wait_for(lambda: [line for _, line, environment in command_lines()
                               if b'\0b\0' in line and MARK.encode() in environment], process)
        return process

    def test_ctrl_c_before_the_start_ends_it(self):
        with self.hosts.unreachable('b'):
            process = self.connecting_job()
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 130, err)
            self.wait_until_nothing_is_left()

    def test_a_launcher_that_loses_this_machine_before_the_start_ends(self):
        with self.hosts.unreachable('b'):
            process = self.connecting_job()
            process.kill()
            process.communicate()
            self.wait_until_nothing_is_left()


if __name__ == '__main__':
    main()
