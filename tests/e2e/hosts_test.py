"""Jobs on two hosts."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from hosts import PROGRAM, HostsCase, command_lines, main, sh

SECRET = f'hf_{"SeCrEt" * 3}{os.getpid()}'  # the same test may run twice on this machine


class HostsTest(HostsCase):
    def test_every_rank_knows_its_place(self):
        out, err = self.run_on_hosts('--', 'sh', '-c', 'echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE '
                                     '$NODE_RANK/$GROUP_WORLD_SIZE $MASTER_ADDR $(hostname) $(pwd)')
        self.assertEqual(err, '')
        for rank in range(4):
            self.assertIn(f'[r{rank}] {rank}/4 {rank % 2}/2 {rank // 2}/2 {self.hosts.net}.1 {"ab"[rank // 2]} {self.work}\n', out)

    def test_a_hostfile_names_hosts_and_their_workers(self):
        (self.work / 'hostfile').write_text('# both\nb slots=2\na slots=1\n')
        out, _ = self.run_on_hosts('--', 'sh', '-c', 'echo $(hostname) $RANK', hosts=None, command=('launch', '--hostfile', 'hostfile'))
        self.assertEqual(sorted(out.splitlines()), ['[r0] b 0', '[r1] b 1', '[r2] a 2'])

    def test_ranges_filters_and_numbers_choose_hosts_and_slots(self):
        show = ('--', 'sh', '-c', 'echo $RANK of $WORLD_SIZE: $(hostname) $LOCAL_RANK of $LOCAL_WORLD_SIZE ${CUDA_VISIBLE_DEVICES-all}')
        for flags, ranks in (
                ((), ['a 0 of 2 all', 'a 1 of 2 all', 'b 0 of 2 all', 'b 1 of 2 all']),
                (('--include', 'node02:1@node01'), ['a 0 of 2 all', 'a 1 of 2 all', 'b 0 of 1 1']),
                (('--exclude', 'node[01-02]:0'), ['a 0 of 1 1', 'b 0 of 1 1']),
                (('--num_nodes', '1'), ['a 0 of 2 all', 'a 1 of 2 all']),
                (('--num_workers', '1'), ['a 0 of 1 all', 'b 0 of 1 all'])):
            out, _ = self.run_on_hosts(*flags, *show, hosts='node[01-02]:2')
            self.assertEqual(sorted(line.split('] ')[1] for line in out.splitlines()),
                             [f'{rank} of {len(ranks)}: {place}' for rank, place in enumerate(ranks)], flags)

    def test_a_hostfile_says_how_to_log_in_and_which_gpus_to_use(self):
        (self.work / 'hostfile').write_text('bare slots=2 user=root ssh_port=2222 gpus=1,3\na slots=1\n')
        show = ('--', 'sh', '-c', 'echo $(hostname) $RANK ${CUDA_VISIBLE_DEVICES-all}')
        out, _ = self.run_on_hosts(*show, hosts=None, command=('launch', '--hostfile', 'hostfile'))
        self.assertEqual(sorted(out.splitlines()), ['[r0] b 0 1,3', '[r1] b 1 1,3', '[r2] a 2 all'])
        out, _ = self.run_on_hosts('--ssh_port', '2222', *show, hosts='root@bare')
        self.assertEqual(out, 'b 0 all\n')

    def test_a_hostfile_names_the_network_of_the_workers(self):
        show = ('--', 'sh', '-c', 'echo $(hostname) $MASTER_ADDR $HGTRAIN_ADDRESS $NCCL_SOCKET_IFNAME')
        fast = self.hosts.fast
        for lines, shown in (('a slots=1 iface=fast\nb slots=1 iface=fast\n', [f'a {fast}.1 {fast}.1 =fast', f'b {fast}.1 {fast}.2 =fast']),
                             (f'a slots=1 addr={fast}.1\nb slots=1\n', [f'a {fast}.1 {fast}.1', f'b {fast}.1'])):
            (self.work / 'hostfile').write_text(lines)
            out, _ = self.run_on_hosts(*show, hosts=None, command=('launch', '--hostfile', 'hostfile'))
            self.assertEqual(sorted(line.split('] ')[1].rstrip() for line in out.splitlines()), shown)
        (self.work / 'hostfile').write_text('a slots=1\nb slots=1 iface=fats\n')
        _, err = self.run_on_hosts('--', 'true', hosts=None, command=('launch', '--hostfile', 'hostfile'), exit_code=3)
        self.assertIn('host b has no network interface fats', err)
        self.assertRegex(err, 'it has .*fast')

    def test_the_masters_address_and_port_are_those_that_are_given(self):
        out, _ = self.run_on_hosts('--master_addr', f'{self.hosts.fast}.1', '--master_port', '29501', '--',
                                   'sh', '-c', 'echo $RANK $MASTER_ADDR:$MASTER_PORT')
        self.assertEqual(sorted(out.splitlines()), [f'[r{rank}] {rank} {self.hosts.fast}.1:29501' for rank in range(4)])

    def test_logs_of_other_hosts_are_read_there_by_the_command_that_is_printed(self):
        logs = self.work / "b's logs"
        logs.mkdir()
        with self.hosts.without('b', logs):
            self.run_on_hosts('--log_dir', logs.name, '--', 'sh', '-c', 'echo first; echo rank $RANK', hosts='a,b', env={'CUDA_VISIBLE_DEVICES': ''})
            for flags, shown, there in (('', 'first\nrank 0\n', 'first\nrank 1\n'), ('-n1', 'rank 0\n', 'rank 1\n')):
                logs_of = sh(PROGRAM, 'logs', logs.name, *flags.split(), cwd=self.work)
                self.assertEqual(logs_of.stdout, shown)
                said = re.fullmatch("hgtrain: b's logs has no log of rank 1 here, which runs on b; there: (ssh b .*)\n", logs_of.stderr)
                self.assertTrue(said, logs_of.stderr)
                self.assertEqual(sh('sh', '-c', said[1], env={**os.environ, 'PATH': f'{self.hosts.folder}/bin:' + os.environ['PATH']}).stdout, there)
            of_the_other = sh(PROGRAM, 'logs', logs.name, '-n1', '--rank', '1', cwd=self.work)
            self.assertEqual((of_the_other.stdout, of_the_other.stderr), ('', logs_of.stderr))

    def test_hosts_with_too_few_gpus_are_named(self):
        out, err = self.run_on_hosts('--num_gpus', '2', '--', 'echo', 'started', exit_code=3)
        self.assertEqual(out, '')
        for host in 'ab':
            self.assertIn(f'host {host} cannot be used: programs see 0 GPUs there, and 2 are asked for', err)

    def test_the_master_port_is_one_of_the_first_host(self):
        out, _ = self.run_on_hosts('--', 'sh', '-c', 'echo port=$MASTER_PORT')
        self.assertEqual(len(set(line.split('port=')[1] for line in out.splitlines())), 1)

    def test_start_up_files_that_print_and_read_do_no_harm(self):
        for text in ('echo welcome', 'printf "no newline"', 'read -t 1 line; echo got "$line"', 'head -c 50000 /dev/zero'):
            (self.hosts.folder / 'home_b/.bashrc').write_text(text + '\n')
            out, _ = self.run_on_hosts('--', 'sh', '-c', 'echo rank $RANK')
            self.assertEqual(sorted(out.splitlines()), [f'[r{rank}] rank {rank}' for rank in range(4)], text)
        (self.hosts.folder / 'home_b/.bashrc').unlink()

    def test_jump_hosts_ipv6_and_remote_commands_of_the_config_work(self):
        for host in ('behind', 'six', 'busy'):
            out, _ = self.run_on_hosts('--', 'sh', '-c', 'echo $(hostname) $RANK', hosts=f'a,{host}')
            self.assertEqual(sorted(out.splitlines()), ['[r0] a 0', '[r1] b 1'], host)

    @unittest.skipUnless(shutil.which('csh'), 'no csh')
    def test_csh_may_be_the_login_shell(self):
        shells = self.hosts.folder / 'passwd_csh'
        shells.write_text(re.sub(r'(?m)^(root:.*):[^:]*$', r'\1:' + shutil.which('csh'), pathlib.Path('/etc/passwd').read_text()))
        inside = ['nsenter', '-t', self.hosts.first_process('b'), '-m', '-p']  # umount looks into /proc
        sh(*inside, 'mount', '--bind', shells, '/etc/passwd')
        try:
            (self.hosts.folder / 'home_b/.cshrc').write_text('echo welcome; set a = "it\'s"\n')
            out, _ = self.run_on_hosts('--', 'sh', '-c', 'echo "it\'s $RANK"')
            self.assertEqual(sorted(out.splitlines()), [f"[r{rank}] it's {rank}" for rank in range(4)])
        finally:
            sh(*inside, 'umount', '--lazy', '/etc/passwd')
            (self.hosts.folder / 'home_b/.cshrc').unlink()

    def test_variables_of_the_list_travel_and_others_if_they_are_named(self):
        show = 'echo $HF_TOKEN,$OTHER,$GIVEN,${CUDA_VISIBLE_DEVICES-unset}'
        env = {'HF_TOKEN': SECRET, 'OTHER': 'other', 'CUDA_VISIBLE_DEVICES': '7'}
        out, _ = self.run_on_hosts('--env', 'GIVEN=a b', '--', 'sh', '-c', show, hosts='b', env=env)
        self.assertEqual(out, f'{SECRET},,a b,unset\n')
        out, _ = self.run_on_hosts('--export', 'OTHER', '--', 'sh', '-c', show, hosts='b', env=env)
        self.assertEqual(out, f'{SECRET},other,,unset\n')
        _, err = self.run_on_hosts('--export', 'NOT_SET', '--', 'true', exit_code=2)
        self.assertIn('--export NOT_SET: it is not set in this shell', err)

    def test_secrets_are_in_no_command_line(self):
        process = self.start('--env', 'TOKEN=' + SECRET[::-1], '--log_dir', 'secret', '--', 'sh', '-c', 'echo ready $RANK; exec sleep 1000',
                             env={'HF_TOKEN': SECRET, 'HGTRAIN_LOG': 'debug'})
        for _ in range(4):
            self.assertIn('ready', process.stdout.readline())
        lines = [line for pid, line, _ in command_lines() if pid != process.pid]  # --env is in the command itself
        for secret in (SECRET, SECRET[::-1]):
            self.assertFalse([line for line in lines if secret.encode() in line])
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
        for text in (err, *(file.read_text() for file in (self.work / 'secret').iterdir() if file.is_file())):
            self.assertNotIn(SECRET, text)
            self.assertNotIn(SECRET[::-1], text)
        self.assertEqual(process.returncode, 143)

    def test_a_rank_that_fails_is_named_with_its_host_and_the_others_are_stopped(self):
        _, err = self.run_on_hosts('--log_dir', 'logs', '--', 'sh', '-c', 'echo rank $RANK; [ $RANK != 3 ] || exit 7; exec sleep 1000',
                                   exit_code=7)
        self.assertRegex(err, r'rank 3 of 4 \(pid \d+ on b\) exited with code 7')
        self.assertIn('more in b:logs/rank_3.log', err)
        self.assertIn('the other 3 ranks were stopped', err)

    def test_ctrl_c_reaches_the_programs_of_all_hosts_and_they_may_save(self):
        process = self.start('--', 'sh', '-c', 'trap "echo saved $RANK; exit 75" INT; echo ready $RANK; while :; do sleep 0.01; done')
        for _ in range(4):
            self.assertIn('ready', process.stdout.readline())
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
        self.assertEqual(out.count('saved'), 4)
        self.assertEqual(process.returncode, 75)

    def test_a_host_whose_connection_ends_is_named_and_ends_the_job(self):
        process = self.start('--', 'sh', '-c', 'echo ready $RANK; exec sleep 1000')
        for _ in range(4):
            self.assertIn('ready', process.stdout.readline())
        for pid, line, _ in command_lines():
            if line.startswith(b'/usr/bin/ssh') and b'\0b\0' in line and str(self.hosts.folder).encode() in line:
                os.kill(pid, signal.SIGKILL)
        start = time.monotonic()
        _, err = process.communicate(timeout=60)
        self.assertLess(time.monotonic() - start, 10)
        self.assertEqual(process.returncode, 6, err)
        self.assertIn('error: host b is lost: its connection has ended: ssh on this machine was killed by SIGKILL\n', err)
        self.assertIn('hint: the host is down, or its agent or connection was killed; with --max_restarts N', err)
        self.assertIn('2 other ranks were stopped', err)

    def test_a_signal_to_an_agent_saves_on_all_hosts(self):
        folder = self.prepare('agent_signalled', 5)
        process = self.start('--config', 'config.json', '--device', 'cpu', '--run_dir', 'run', '--steps', '100000', cwd=folder, command=('train',))
        metrics = folder / 'run/metrics.jsonl'
        self.wait_for(lambda: metrics.exists() and metrics.read_text().count('\n') >= 2, process)
        agent, = self.hosts.agents_of('b')
        os.kill(agent, signal.SIGTERM)
        _, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 75, err)
        self.assertIn('SIGTERM on host b counts for the whole job', err)
        steps = len(metrics.read_text().splitlines())
        self.assertTrue((folder / f'run/checkpoints/step_{steps:08}').is_dir(), err)

    def test_an_agent_that_is_killed_takes_its_ranks_along(self):
        process = self.start('--', 'sh', '-c', 'echo ready $RANK; exec sleep 1000')
        for _ in range(4):
            self.assertIn('ready', process.stdout.readline())
        agent, = self.hosts.agents_of('b')
        start = time.monotonic()
        os.kill(agent, signal.SIGKILL)
        _, err = process.communicate(timeout=60)
        self.assertLess(time.monotonic() - start, 10)
        self.assertEqual(process.returncode, 6, err)
        self.assertIn('error: host b is lost: its connection has ended\n', err)
        self.assertIn('hint: the host is down, or its agent or connection was killed; with --max_restarts N', err)
        self.assertIn('2 other ranks were stopped', err)

    def sleeping_job(self):
        """A job of four ranks that have started and only wait, whatever they are told."""
        process = self.start('--grace', '1', '--', 'sh', '-c', 'trap "" TERM HUP; echo ready $RANK; while :; do sleep 1; done')
        for _ in range(4):
            self.assertIn('ready', process.stdout.readline())
        return process

    def test_a_connection_that_is_silent_ends_the_job_on_both_sides(self):
        process = self.sleeping_job()
        start = time.monotonic()
        with self.hosts.unreachable('b'):
            _, err = process.communicate(timeout=60)
            self.assertLess(time.monotonic() - start, 30)
            self.assertEqual(process.returncode, 6, err)
            self.assertIn('error: host b is lost: nothing has come from it for 15 s\n', err)
            self.wait_until_nothing_is_left()  # although the host cannot be reached

    def test_a_launcher_that_loses_its_network_blames_no_host(self):
        process = self.sleeping_job()
        with self.hosts.unreachable('a'), self.hosts.unreachable('b'):
            _, err = process.communicate(timeout=60)
            self.wait_until_nothing_is_left()
        self.assertEqual(process.returncode, 6, err)
        self.assertRegex(err, r'error: nothing has come from any host \(a, b\) for 15 s\n  host [ab] is lost')
        self.assertRegex(err, 'hint: the network of this machine, .*, has failed: its interface .* has no link')
        self.assertNotIn('it may have been the first', err)

    def test_a_host_that_is_silent_is_to_blame_for_a_rank_elsewhere_that_fails_meanwhile(self):
        process = self.start('--grace', '1', '--', 'sh', '-c', 'echo ready $RANK; [ $RANK = 0 ] || exec sleep 1000; '
                             'until [ -e silent ]; do sleep 0.1; done; exit 7', env={'HGTRAIN_LOG': 'info'})
        for _ in range(4):
            self.assertIn('ready', process.stdout.readline())
        with self.hosts.unreachable('b'):
            next(line for line in process.stderr if 'nothing has come from host b for 2 s' in line)
            (self.work / 'silent').touch()
            _, err = process.communicate(timeout=120)
            self.assertEqual(process.returncode, 6, err)
            self.assertIn('host b is lost: nothing has come from it for 15 s', err)
            self.assertNotIn('cannot be killed', err)

    def test_a_launcher_that_is_stopped_is_given_up_by_the_hosts(self):
        process = self.sleeping_job()
        process.send_signal(signal.SIGSTOP)
        self.wait_until_nothing_is_left(seconds=25)  # 10 after the lease
        process.send_signal(signal.SIGCONT)
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 6, err)
        self.assertRegex(err, r'error: host [ab] gave up this launcher, which was stopped for \d+ s\n')
        self.assertIn('hint: each host ends its part of a job if it hears nothing from the launcher for 15 s', err)

    def test_an_agent_that_is_stopped_is_given_up_by_the_launcher_and_its_guards(self):
        process = self.sleeping_job()
        agent, = self.hosts.agents_of('b')
        start = time.monotonic()
        os.kill(agent, signal.SIGSTOP)
        _, err = process.communicate(timeout=60)
        self.assertLess(time.monotonic() - start, 30)
        self.assertEqual(process.returncode, 6, err)
        self.assertIn('host b is lost: nothing has come from it for 15 s', err)
        self.assertIn('hint: the host or its network is down, or its agent or connection is stopped; with --max_restarts N', err)
        self.wait_until_nothing_is_left()  # not even the agent

    @contextlib.contextmanager
    def shared_disk(self, folder):
        """A file system at the folder, on this machine and on all hosts: its device."""
        image = self.work / 'disk'
        image.write_bytes(bytes(32 << 20))
        sh('mkfs.ext4', '-q', image)
        loop = sh('losetup', '--find', '--show', image).stdout.strip()
        enter = [[], *(['nsenter', '-t', self.hosts.first_process(name), '-m', '-p'] for name in self.hosts.names)]
        try:
            for inside in enter:
                sh(*inside, 'mount', loop, folder)
            yield
        finally:
            for inside in enter:
                subprocess.run([*map(str, inside), 'umount', '--lazy', folder], check=False)
            sh('losetup', '--detach', loop)

    @unittest.skipUnless(pathlib.Path('/dev/loop-control').exists(), 'a disk that can stand still needs a loop device')
    def test_a_disk_of_the_logs_that_stands_still_loses_no_host(self):
        folder = self.work / 'still'
        folder.mkdir()
        with self.shared_disk(folder):
            output = folder / 'output'
            with output.open('w') as file:
                process = self.start('--log_dir', folder, '--', 'sh', '-c', 'for i in $(seq 220); do echo line $i; sleep 0.1; done; echo end $RANK',
                                     output=file)
            self.wait_for(lambda: 'line 1\n' in output.read_text(), process)
            # For longer than a lease; then it goes on by itself, whatever the job does.
            subprocess.run(['sh', '-c', 'fsfreeze --freeze "$0" && sleep 18; fsfreeze --unfreeze "$0"', folder], check=True)
            self.assertIsNone(process.poll())
            self.assertEqual(process.wait(timeout=60), 0, output.read_text())
            self.assertIn('line 220\n', output.read_text())
            for rank in range(4):
                self.assertEqual((folder / f'rank_{rank}.log').read_text().splitlines()[-2:], ['line 220', f'end {rank}'])

    def test_nothing_is_left_on_any_host_if_the_launcher_is_killed(self):
        process = self.start('--', 'sh', '-c', 'trap "" TERM HUP; setsid sleep 1000 & echo ready $RANK; while :; do sleep 1; done')
        for _ in range(4):
            self.assertIn('ready', process.stdout.readline())
        process.kill()
        process.communicate()

    def test_hosts_that_cannot_be_used_are_all_named_before_anything_starts(self):
        out, err = self.run_on_hosts('--', 'echo', 'started', hosts='a,shut,nowhere.invalid', exit_code=3)
        self.assertEqual(out, '')
        self.assertIn('host shut cannot be used: ssh: connect to host', err)
        self.assertIn('Connection refused', err)
        self.assertIn('host nowhere.invalid cannot be used: ssh: Could not resolve hostname', err)

    def test_a_folder_or_program_that_a_host_lacks_is_named(self):
        with tempfile.TemporaryDirectory(dir='/dev/shm') as folder:  # each host has its own
            _, err = self.run_on_hosts('--', 'true', cwd=folder, exit_code=2)
        self.assertRegex(err, f'host [ab] has no folder {folder}')
        _, err = self.run_on_hosts('--', 'no-such-program', exit_code=2)
        self.assertIn("there is no program 'no-such-program' in PATH", err)
        self.assertRegex(err, 'on host [ab]')

    def test_a_virtual_environment_that_hosts_lack_is_named_before_anything_starts(self):
        (self.work / 'where.py').write_text('#!/usr/bin/env python3\nimport sys\nprint(sys.prefix)\n')
        (self.work / 'where.py').chmod(0o755)
        programs = (('where.py',), ('--', 'python3', 'where.py'), ('--', './where.py'), ('--detach', '--log_dir', 'away', 'where.py'))
        with tempfile.TemporaryDirectory(dir='/dev/shm') as folder:  # each host has its own
            for environment in (pathlib.Path(folder), self.work / 'venv'):
                (environment / 'bin').mkdir(parents=True)
                (environment / 'bin/python3').symlink_to('/usr/bin/python3')
                (environment / 'pyvenv.cfg').write_text('home = /usr/bin\n')
                path = {'PATH': f'{environment}/bin:{self.hosts.folder}/bin:' + os.environ['PATH']}
                if environment == self.work / 'venv':
                    out, _ = self.run_on_hosts('where.py', env=path, hosts='a:1,b:1')
                    self.assertIn(str(environment), out)
                    self.assertNotIn('/usr', out)
                    continue
                for program in programs:
                    out, err = self.run_on_hosts(*program, env=path, exit_code=2)
                    self.assertNotIn('/usr', out)
                    for host in 'ab'[:1 if '--detach' in program else 2]:
                        self.assertIn(f'host {host} has no {folder}/bin/python3: this shell takes python3 from its virtual environment {folder}\n', err)
                self.run_on_hosts('--', '/usr/bin/python3', 'where.py', env=path)
                self.run_on_hosts('--', 'true', env=path)

    def test_a_host_without_this_build_gets_it_once(self):
        folder = self.prepare('sent', 1)
        with self.hosts.without('b', PROGRAM.parent):
            _, err = self.train_on_hosts(folder, 'first', '--steps', '2', hosts='a:1,b:1')
            self.assertIn('sending this hgtrain to host b, which has no such build', err)
            _, err = self.train_on_hosts(folder, 'second', '--steps', '2', hosts='a:1,b:1')
            self.assertNotIn('sending', err)
        self.assertEqual(self.losses(folder, 'first'), self.losses(folder, 'second'))

    def test_training_on_two_hosts_has_the_losses_of_one(self):
        folder = self.prepare('training', 3)
        sh(PROGRAM, '--config', 'config.json', '--device', 'cpu', '--run_dir', 'one', '--num_workers', '4', cwd=folder)
        one = self.losses(folder, 'one')
        self.assertEqual(len(one), 12)
        for run, flags in (('two', ()), ('zero', ('--zero_optimization.stage', '2'))):
            self.train_on_hosts(folder, run, *flags)
            for a, b in zip(one, self.losses(folder, run), strict=True):
                self.assertEqual(a[0], b[0])
                self.assertAlmostEqual(a[1], b[1], delta=1e-5)
        self.assertEqual([w['host'] for w in json.loads((folder / 'two/run.json').read_text())['workers']], ['a', 'a', 'b', 'b'])
        for rank in range(4):
            self.assertIn(f'rank {rank} of 4 on {"ab"[rank // 2]}', (folder / f'two/logs/rank_{rank}.log').read_text())

    def test_sums_over_two_levels_send_half_and_have_the_bits_of_one(self):
        folder = self.prepare('levels', 3)
        for stage in ('0', '2'):
            sent = {}
            for levels, flags in (('two', ()), ('one', ('--distributed.backend', 'gloo'))):
                before = self.hosts.sent('b', 'eth0')
                # Ranks wait for each other within a host and across hosts: nobody may rely on the kernel to take a whole piece.
                with self.hosts.small_socket_buffers('ab'):
                    self.train_on_hosts(folder, levels + stage, '--model.n_embd', '128', '--checkpoint.save_interval', '0',
                                        '--zero_optimization.stage', stage, *flags)
                sent[levels] = self.hosts.sent('b', 'eth0') - before
            self.assertLess(sent['two'], 0.7 * sent['one'], stage)
            self.assertEqual(self.losses(folder, 'two' + stage), self.losses(folder, 'one' + stage))

    def test_training_goes_through_the_network_that_is_named(self):
        folder = self.prepare('networks', 3)
        (folder / 'hostfile').write_text('a slots=1 iface=fast\nb slots=1 iface=fast\n')
        for run, flags in (('named', {'hosts': None, 'command': ('train', '--hostfile', 'hostfile')}),
                           ('in_config', {'command': ('train', '--num_workers', '1', '--distributed.interface', 'fast')}),
                           ('default', {'command': ('train', '--num_workers', '1')})):
            before = self.hosts.sent('b', 'fast')
            self.run_on_hosts('--config', 'config.json', '--device', 'cpu', '--run_dir', run, cwd=folder, **flags)
            sent = self.hosts.sent('b', 'fast') - before
            (self.assertLess if run == 'default' else self.assertGreater)(sent, 100_000, run)
            self.assertEqual(self.losses(folder, run), self.losses(folder, 'named'))

    def test_ranks_whose_network_is_cut_say_so_though_their_hosts_answer_the_launcher(self):
        folder = self.prepare('cut', 3)
        process = self.start('--config', 'config.json', '--device', 'cpu', '--run_dir', 'run', '--steps', '1000000',
                             '--checkpoint.save_interval', '0',  # if the cut hit a checkpoint, the error would name that first
                             '--distributed.interface', 'fast', command=('train',), cwd=folder)
        metrics = folder / 'run/metrics.jsonl'
        steps = lambda: metrics.exists() and metrics.read_bytes().count(b'\n')
        self.wait_for(lambda: steps() > 3, process)
        with self.hosts.unreachable('b', self.hosts.fast_bridge):
            time.sleep(8)
        before = steps()
        self.wait_for(lambda: steps() > before + 3, process)  # it was not cut for long
        with self.hosts.unreachable('b', self.hosts.fast_bridge):
            start = time.monotonic()
            _, err = process.communicate(timeout=60)
            self.assertLess(time.monotonic() - start, 45)
            self.assertEqual(process.returncode, 6, err)
            self.assertRegex(err, rf'error: lost rank \d: nothing has come from its host, {self.hosts.fast}\.\d, for 20 s: the network is cut')
            self.assertRegex(err, r'rank \d of 4 \(.* on [ab]\)')
            self.assertIn('hgtrain doctor --links, with the hosts of', err)

    def start_for_a_restart(self, folder):
        """Starts a run on both hosts, and returns once it has saved."""
        process = self.start('--config', 'config.json', '--device', 'cpu', '--run_dir', 'run', '--steps', '3000', '--max_restarts', '1',
                             '--distributed.interface', 'fast', '--checkpoint.save_interval', '100', command=('train',), cwd=folder)
        self.wait_for(lambda: (folder / 'run/checkpoints/latest').exists(), process)
        return process

    def test_a_stop_ends_a_restart_that_waits_for_the_network_between_ranks(self):
        folder = self.prepare('stops', 3)
        process = self.start_for_a_restart(folder)
        with self.hosts.unreachable('b', self.hosts.fast_bridge):
            said = self.read_until('cannot reach rank', process)
            process.send_signal(signal.SIGINT)
            start = time.monotonic()
            _, err = process.communicate(timeout=60)
            self.assertLess(time.monotonic() - start, 5)
        self.assertEqual(process.returncode, 75, said + err)
        self.assertIn('the ranks are still connecting: there is no step to finish, so they end now\n'
                      'stopped by SIGINT while its ranks were connecting\n', err)
        self.assertNotIn('finishing this step', err)
        self.assertRegex(err, r'  the last checkpoint is of step \d+00\n  resume with: .* --resume auto\n')

    def test_a_restart_waits_for_the_network_between_ranks(self):
        folder = self.prepare('returns', 3)
        process = self.start_for_a_restart(folder)
        with self.hosts.unreachable('b', self.hosts.fast_bridge):
            said = self.read_until('cannot reach rank', process)
        _, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, said + err)
        self.assertRegex(said, rf'rank 3 cannot reach rank 0 at {self.hosts.fast}.1: .*; it goes on trying for up to \d+ s')
        self.assertEqual(len(self.losses(folder, 'run')), 3000)

    def test_a_restart_waits_for_a_route_between_ranks(self):
        folder = self.prepare('routes', 3)
        process = self.start('--config', 'config.json', '--device', 'cpu', '--run_dir', 'run', '--steps', '3000', '--max_restarts', '1',
                             '--checkpoint.save_interval', '100', command=('train',), cwd=folder, hosts='a:1,b:1')
        self.wait_for(lambda: (folder / 'run/checkpoints/latest').exists(), process)
        route = f'{self.hosts.net}.1/32'
        sh('ip', '-n', f'{self.hosts.bridge}b', 'route', 'add', 'unreachable', route)
        try:
            said = self.read_until('; it goes on trying for up to ', process)
        finally:
            sh('ip', '-n', f'{self.hosts.bridge}b', 'route', 'del', route)
        _, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, said + err)
        self.assertIn(f'rank 1: b has no route to {self.hosts.net}.1; it goes on trying for up to ', said)
        self.assertEqual(len(self.losses(folder, 'run')), 3000)

    def test_a_firewall_between_ranks_is_an_error_within_seconds(self):
        folder = self.prepare('firewall', 3)
        inside, answers = f'{self.hosts.bridge}a', ('blackhole', f'{self.hosts.fast}.2/32')
        sh('ip', '-n', inside, 'route', 'add', *answers)
        try:
            start = time.monotonic()
            _, err = self.train_on_hosts(folder, 'run', '--distributed.interface', 'fast', exit_code=6)
            self.assertLess(time.monotonic() - start, 60)
        finally:
            sh('ip', '-n', inside, 'route', 'del', *answers)
        self.assertRegex(err, rf'cannot connect to rank \d at {self.hosts.fast}\.1, port \d+: it does not answer')
        self.assertRegex(err, "the hosts' firewalls must let the ranks connect .* hgtrain doctor --links, .*; iface=NAME")

    def test_an_interface_that_a_host_lacks_is_an_error_that_lists_those_it_has(self):
        folder = self.prepare('interfaces', 3)
        _, err = self.train_on_hosts(folder, 'run', '--distributed.interface', 'fats', exit_code=3)
        self.assertRegex(err, r'host [ab] has no network interface fats')
        self.assertIn(f'it has eth0 ({self.hosts.net}.', err)
        self.assertIn(f'fast ({self.hosts.fast}.', err)

    def test_an_address_that_is_a_loopback_on_its_own_host_is_an_error(self):
        folder = self.prepare('loopback', 3)
        inside = {name: ['nsenter', '-t', self.hosts.first_process(name), '-m', '-p'] for name in 'ab'}
        for name, address in (('a', '127.0.1.1'), ('b', f'{self.hosts.net}.1')):
            names = self.hosts.folder / f'etc_hosts_{name}'
            names.write_text(f'{address} node01\n')
            sh(*inside[name], 'mount', '--bind', names, '/etc/hosts')
        try:
            _, err = self.train_on_hosts(folder, 'run', '--master_addr', 'node01', exit_code=3)
        finally:
            for name in 'ab':
                sh(*inside[name], 'umount', '--lazy', '/etc/hosts')
        self.assertIn('on host a, node01 is its loopback, where other hosts cannot reach it', err)
        self.assertIn(f'it has eth0 ({self.hosts.net}.1', err)

    def test_ranks_speak_over_ipv6_if_ssh_does(self):
        folder = self.prepare('six', 3)
        self.train_on_hosts(folder, 'run', hosts='six:1,a:1')
        self.assertEqual(len(self.losses(folder, 'run')), 12)

    def test_another_tokenizer_on_a_host_is_an_error_that_names_it(self):
        folder = self.prepare('tokenizers', 3)
        there = next((folder).glob('*.tokenizer/tokenizer.json'))
        other = folder / 'other.json'
        other.write_text(there.read_text() + ' ')
        inside = ['nsenter', '-t', self.hosts.first_process('b'), '-m', '-p']
        sh(*inside, 'mount', '--bind', other, there)
        try:
            _, err = self.train_on_hosts(folder, 'run', exit_code=4)
        finally:
            sh(*inside, 'umount', '--lazy', there)
        self.assertRegex(err, r'the tokenizer \S+ of rank [23] on b is not the same as rank 0')

    def test_training_is_on_gpus_if_hostfile_or_flags_ask_for_them(self):
        folder = self.prepare('with_gpus', 3)
        for gpus, flags, device, is_said in ((' gpus=0', (), 'cuda', False), (' gpus=0', ('--device', 'cpu'), 'cpu', False),
                                             ('', (), 'cpu', True), ('', ('--device', 'cuda'), 'cuda', False), ('', ('--num_gpus', '1'), 'cuda', False)):
            (folder / 'hostfile').write_text(f'a slots=1{gpus}\nb slots=1{gpus}\n')
            out, err = self.run_on_hosts('--config', 'config.json', '--dry_run', *flags, hosts=None, cwd=folder,
                                         command=('train', '--hostfile', 'hostfile'))
            self.assertIn(f'"device": "{device}"', out)
            self.assertEqual('the hosts train on their CPUs; to use their GPUs, add --device cuda' in err, is_said)
        _, err = self.run_on_hosts('--config', 'config.json', '--run_dir', 'run', '--device', 'cuda', cwd=folder, command=('train',), exit_code=3)
        for host in 'ab':
            self.assertIn(f'host {host} cannot be used: programs see 0 GPUs there, and 2 are asked for', err)

    def test_localhost_alone_is_this_machine(self):
        folder = self.prepare('here', 3)
        self.train_on_hosts(folder, 'here', hosts='localhost:2')
        self.assertEqual(len({w['host'] for w in json.loads((folder / 'here/run.json').read_text())['workers']}), 1)
        self.assertEqual(len(self.losses(folder, 'here')), 12)
        out, _ = self.run_on_hosts('--config', 'config.json', '--dry_run', hosts='localhost:2', cwd=folder, command=('train',))
        self.assertRegex(out, 'workers     2 x .* on cpu')  # there is no GPU here
        out, _ = self.run_on_hosts('--config', 'config.json', '--include', 'localhost:0,2', '--dry_run', hosts=None, cwd=folder,
                                   command=('train',))
        self.assertRegex(out, r'"device": "cuda"')
        _, err = self.train_on_hosts(folder, 'alone', '--join_timeout', '5', hosts='localhost:2', exit_code=2)
        self.assertIn('--join_timeout is only for commands that are started on each node', err)

    def test_training_on_hosts_is_resumed_from_its_checkpoint(self):
        folder = self.prepare('resuming', 3)
        self.train_on_hosts(folder, 'whole')
        self.train_on_hosts(folder, 'parts', '--steps', '5')
        self.train_on_hosts(folder, 'parts', '--resume', 'auto')
        self.assertEqual(self.losses(folder, 'parts')[5:], self.losses(folder, 'whole')[5:])

    def test_other_data_on_a_host_are_an_error_that_names_it(self):
        with tempfile.TemporaryDirectory(dir='/dev/shm') as common:  # each host has its own
            for name, seed in (('data_here', 3), ('data_b', 5)):
                self.prepare(name, seed)
            shutil.copytree(self.work / 'data_here', common, dirs_exist_ok=True)
            for host, name in (('a', 'data_here'), ('b', 'data_b')):
                sh(self.hosts.folder / 'bin/ssh', host, f'mkdir {common}; cp -r {self.work}/{name}/* {common}')
            _, err = self.train_on_hosts(self.work / 'data_here', 'other', '--data.train_data_path', f'{common}/data',
                                         exit_code=4)
        self.assertRegex(err, 'the training data of rank [23] on b are not the same as rank 0')

    def test_other_data_between_the_samples_that_are_compared_at_the_start_end_the_job_soon(self):
        folder = self.prepare('large', 3)
        large = 80 << 20
        with tempfile.TemporaryDirectory(dir='/dev/shm') as common:  # each host has its own
            for host in (None, 'a', 'b'):
                changed = f'printf 1 | dd of={common}/large.bin bs=1 seek={large // 512 - 7000} conv=notrunc' if host == 'b' else 'true'
                make = f'mkdir -p {common}; truncate -s {large} {common}/large.bin; {changed}'
                sh(*([self.hosts.folder / 'bin/ssh', host] if host else ['sh', '-c']), make)
            _, err = self.train_on_hosts(folder, 'run', '--data.train_data_path', f'{common}/large.bin',
                                         '--model.vocab_size', '64', '--steps', '1000000', exit_code=4)
        self.assertRegex(err, "the data on b are not the same as on rank 0's host")

    def test_a_dry_run_needs_the_number_of_workers(self):
        _, err = self.run_on_hosts('--dry_run', '--', 'true', hosts='a,b:2,c', exit_code=2)
        for host in 'ac':
            self.assertIn(f'host {host} has no number of workers, and a dry run asks no host', err)

    def test_a_dry_run_shows_ranks_commands_and_environments_and_calls_no_host(self):
        out, _ = self.run_on_hosts('--dry_run', '--include', 'nowhere1:1@nowhere2', '--ssh_port', '2222', '--export', 'OTHER',
                                   '--log_dir', 'dry', '--', 'touch', 'made by it', hosts='nowhere[1-2]:2',
                                   env={'HF_TOKEN': SECRET, 'OTHER': SECRET})
        self.assertEqual(re.findall(r'(?m)^ +(\d+)  (\S+) +(\d+)  GPU (\d+), if', out),
                         [('0', 'nowhere1', '0', '1'), ('1', 'nowhere2', '0', '0'), ('2', 'nowhere2', '1', '1')])
        self.assertIn("command: touch 'made by it'\nworkers: 3\n", out)
        self.assertRegex(out, r'(?m)^nowhere2: ssh .* -p 2222 -- nowhere2 "\$SCRIPT"$')
        self.assertRegex(out, r'hosts get: .*HF_TOKEN.*OTHER')
        first, _, last = out.split('\nenvironment of rank ')[1:]
        for line in ('RANK=0', 'WORLD_SIZE=3', 'GROUP_WORLD_SIZE=2'):
            self.assertIn(f'  {line}\n', first)
        self.assertRegex(first, 'chosen at the start: .*MASTER_ADDR.*MASTER_PORT')
        for line in ('RANK=2', 'LOCAL_RANK=1', 'LOCAL_WORLD_SIZE=2', 'NODE_RANK=1'):
            self.assertIn(f'  {line}\n', last)
        self.assertNotIn('  WORLD_SIZE', last)
        self.assertIn('  CUDA_VISIBLE_DEVICES=1\n', out)
        self.assertNotIn(SECRET, out)
        self.assertFalse((self.work / 'dry').exists())

    def test_a_dry_run_of_training_shows_where_each_rank_would_train(self):
        folder = self.prepare('dry_training', 3)
        out, _ = self.train_on_hosts(folder, 'run', '--dry_run', '--master_addr', '10.0.0.1')
        self.assertEqual(re.findall(r'(?m)^ +(\d+)  (\S+) +(\d+)  cpu, 1 thread$', out),
                         [('0', 'a', '0'), ('1', 'a', '1'), ('2', 'b', '0'), ('3', 'b', '1')])
        self.assertRegex(out, r'command: \S+/hgtrain-worker train ')
        self.assertIn('  MASTER_ADDR=10.0.0.1\n', out)
        self.assertFalse((folder / 'run').exists())


if __name__ == '__main__':
    main()
