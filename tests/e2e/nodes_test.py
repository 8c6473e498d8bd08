"""Jobs whose nodes are started one by one and dial node 0."""
import json
import os
import pathlib
import signal
import subprocess
import time

from hosts import (HAVE_TIME_SPACES, MARK, MAX_STRANGERS_KIB, PROGRAM, HostsCase, command_lines, listening_ports, main, resident_kib, sh,
                   strangers)

SECRET = 'job secret ' + 'SeCrEt' * 4


class NodesTest(HostsCase):
    """Nodes on the hosts a, b and c."""
    names = 'abc'

    def setUp(self):
        self.secret = self.work / 'job_secret'
        self.secret.write_text(SECRET + '\n')
        self.secret.chmod(0o600)

    def start_node(self, node, *args, command=('launch',), flags=('--nnodes', '2'), env=(), cwd=None, place=None, before='true'):
        """`place`: who and where node 0 is, in place of the usual flags. `before`: a command for a shell of the node."""
        # Each word executes the next, so that signals reach the node.
        inside = ['nsenter', '-t', str(self.hosts.first_process(self.names[node])), '-n', '-u', '-i', *(['-T'] if HAVE_TIME_SPACES else []),
                  'unshare', '-m', 'sh', '-c', 'mount -t tmpfs tmpfs /dev/shm; ' + before + '; exec "$0" "$@"']
        return subprocess.Popen(
            [*inside, PROGRAM, *command, *flags, *(place if place is not None else ('--node_rank', str(node), '--master_addr', f'{self.hosts.net}.1')),
             '--job_secret_file', self.secret, *args],
            text=True, cwd=cwd or self.work, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, MARK: '1', **dict(env)})

    def wait_for_step(self, folder, run, step, process):
        metrics = folder / run / 'metrics.jsonl'
        self.wait_for(lambda: metrics.exists() and metrics.read_text().count('\n') >= step, process)

    def end_of_training(self, processes, exit_code=0):
        ends = [process.communicate(timeout=300) for process in processes]
        self.assertEqual([process.returncode for process in processes], [exit_code] * len(processes), ends)
        return ends

    def start_nodes(self, *args, **options):
        """Of a and b, their processes; b is started first."""
        return [self.start_node(node, *args, **options) for node in (1, 0)][::-1]

    def end_of(self, processes, exit_code=0):
        """What node 0 has printed; all end with the code, and the others only say that they have joined."""
        (out, err), *others = [process.communicate(timeout=120) for process in processes]
        self.assertEqual([process.returncode for process in processes], [exit_code] * len(processes), (out, err, others))
        if exit_code == 0:
            for printed, said in others:
                self.assertEqual(printed, '')
                self.assertRegex(said, r'\Ahgtrain: .* has joined node 0 at \S+, which reports on the job\n\Z')
        return out, err

    def test_every_rank_knows_its_place_and_no_rank_knows_the_secret(self):
        show = ('--nproc_per_node', '2', '--', 'sh', '-c', 'echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $NODE_RANK $MASTER_ADDR '
                '$(hostname) $(env | grep -c SeCrEt)')
        for env in ({}, {'HGTRAIN_JOB_SECRET': SECRET}):
            out, _ = self.end_of(self.start_nodes(*show, env=env))
            for rank in range(4):
                self.assertIn(f'[r{rank}] {rank}/4 {rank % 2}/2 {rank // 2} {self.hosts.net}.1 {"ab"[rank // 2]} 0\n', out)

    def test_the_flags_of_torchrun_number_the_nodes_as_they_join(self):
        flags = [f'--{name}' for name in ('nnodes=2', 'nproc-per-node=2', 'rdzv-id=100', 'rdzv-backend=c10d', f'rdzv-endpoint={self.hosts.net}.2:29400')]
        show = ('--', 'sh', '-c', 'echo $RANK/$WORLD_SIZE $LOCAL_RANK $NODE_RANK $MASTER_ADDR $(hostname) $TORCHELASTIC_RUN_ID')
        other, first = self.start_nodes(*show, flags=flags, place=[])
        out, _ = self.end_of([first, other])
        for rank in range(4):
            self.assertIn(f'[r{rank}] {rank}/4 {rank % 2} {rank // 2} {self.hosts.net}.2 {"ba"[rank // 2]} 100\n', out)

    def test_a_hostfile_without_ssh_as_deepspeed_has_it(self):
        (self.work / 'hostfile').write_text('a slots=1\nb slots=2\n')
        out, _ = self.end_of(self.start_nodes('--', 'sh', '-c', 'echo $RANK $(hostname)', flags=('--hostfile', 'hostfile', '--no_ssh')))
        self.assertEqual(sorted(out.splitlines()), ['[r0] 0 a', '[r1] 1 b', '[r2] 2 b'])

    def test_the_secret_is_on_no_command_line_and_in_no_environment(self):
        processes = self.start_nodes('--', 'sh', '-c', 'echo ready $RANK; exec sleep 1000', env={'HGTRAIN_JOB_SECRET': SECRET})
        for _ in range(2):
            self.assertIn('ready', processes[0].stdout.readline())
        seen = [line for _, line, environment in command_lines()
                if MARK.encode() in environment and SECRET.encode() in line + environment and b'nsenter' not in line]
        self.assertEqual(seen, [])
        processes[1].send_signal(signal.SIGTERM)
        self.end_of(processes, exit_code=143)

    def test_strangers_at_the_port_where_nodes_join_neither_keep_them_out_nor_cost_much_memory(self):
        program = ('--', 'sh', '-c', 'echo rank $RANK')
        first = self.start_node(0, *program)
        port, = self.wait_for(lambda: listening_ports(self.hosts.first_process('a')) - {2222}, first)
        before = resident_kib(first.pid)
        guests = strangers(f'{self.hosts.net}.1', port)
        self.assertLess(resident_kib(first.pid) - before, MAX_STRANGERS_KIB)
        out, _ = self.end_of([first, self.start_node(1, *program)])
        self.assertEqual(sorted(out.splitlines()), ['[r0] rank 0', '[r1] rank 1'])
        for guest in guests:
            guest.close()

    def test_a_rank_that_fails_is_named_with_its_host(self):
        processes = self.start_nodes('--', 'sh', '-c', '[ $RANK = 1 ] && exit 7; exec sleep 1000')
        _, err = self.end_of(processes, exit_code=7)
        self.assertRegex(err, r'error: rank 1 of 2 \(pid \d+ on b\) exited with code 7')

    def test_a_connection_that_is_silent_ends_the_job_on_both_sides(self):
        processes = self.start_nodes('--', 'sh', '-c', 'echo ready $RANK; exec sleep 1000')
        for _ in range(2):
            self.assertIn('ready', processes[0].stdout.readline())
        sh('ip', 'link', 'set', f'{self.hosts.bridge}b', 'down')
        try:
            _, err = self.end_of(processes, exit_code=6)
            self.assertIn('host b is lost: nothing has come from it for 15 s', err)
        finally:
            sh('ip', 'link', 'set', f'{self.hosts.bridge}b', 'up')

    def test_what_a_node_has_otherwise_is_named_and_node_0s_counts(self):
        folder = self.prepare('other_config', 3)
        args = ('--device', 'cpu', '--num_workers', '1')
        options = {'command': ('train',), 'cwd': folder}
        sh('cp', 'config.json', 'other.json', cwd=folder)
        nodes = [self.start_node(0, '--config', 'config.json', '--run_dir', 'run', *args, **options),
                 self.start_node(1, '--config', 'other.json', *args, '--steps', '9', '--optimizer.params.lr', '1', '--max_restarts', '3', **options)]
        (_, err), _ = self.end_of_training(nodes)
        name = f'node 1 on b ({self.hosts.net}.2)'
        self.assertIn(f"{name}: its config is written otherwise: optimizer.params.lr is 1 there and 0.003 on node 0, training.train_iters is 9 there "
                      "and 12 on node 0; node 0's counts\n", err)
        self.assertIn(f"{name}: --max_restarts is 3 there and 0 on node 0; node 0's counts\n", err)
        self.assertNotIn('--run_dir', err)
        self.assertEqual(len(self.losses(folder, 'run')), 12)

    def test_training_on_nodes_has_the_losses_of_one_machine(self):
        folder = self.prepare('node_training', 3)
        sh(PROGRAM, '--config', 'config.json', '--device', 'cpu', '--run_dir', 'one', '--num_workers', '4', cwd=folder)
        self.end_of_training(self.start_nodes('--config', 'config.json', '--device', 'cpu', '--num_workers', '2', '--run_dir', 'two',
                                              command=('train',), cwd=folder))
        for a, b in zip(self.losses(folder, 'one'), self.losses(folder, 'two'), strict=True):
            self.assertEqual(a[0], b[0])
            self.assertAlmostEqual(a[1], b[1], delta=1e-5)

    def test_a_signal_at_any_node_saves_on_all(self):
        folder = self.prepare('node_stop', 3)
        processes = self.start_nodes('--config', 'config.json', '--device', 'cpu', '--num_workers', '1', '--run_dir', 'run',
                                     '--steps', '100000', command=('train',), cwd=folder)
        self.wait_for_step(folder, 'run', 6, processes[0])
        processes[1].send_signal(signal.SIGUSR1)
        self.end_of_training(processes, exit_code=75)
        self.assertTrue(list((folder / 'run/checkpoints').glob('step_*')))

    def hosts_of(self, folder, run):
        return [worker['host'] for worker in json.loads((folder / run / 'run.json').read_text())['workers']]

    def test_training_starts_on_the_nodes_that_are_there_and_others_join_leave_and_come_back(self):
        folder = self.prepare('elastic_nodes', 3)
        batch = ('--train_batch_size', '12', '--training.eval_interval', '0', '--checkpoint.save_interval', '50', '--checkpoint.keep_last_n', '2')
        sh(PROGRAM, '--config', 'config.json', '--device', 'cpu', '--run_dir', 'one', '--steps', '100', *batch, cwd=folder)

        def start(node, *flags):
            return self.start_node(node, '--config', 'config.json', '--device', 'cpu', '--num_workers', '1', '--run_dir', 'run', '--steps',
                                   '100000', '--steps_per_print', '1000', *batch, *flags, flags=('--nnodes', '1:3'), command=('train',), cwd=folder)

        first = start(0, '--join_timeout', '2')
        self.wait_for_step(folder, 'run', 100, first)
        self.assertEqual(self.hosts_of(folder, 'run'), ['a'])
        others = [start(1)]
        self.wait_for(lambda: self.hosts_of(folder, 'run') == ['a', 'b'], first)
        others.append(start(2))
        self.wait_for(lambda: self.hosts_of(folder, 'run') == ['a', 'b', 'c'], first)
        with self.hosts.unreachable('b'):
            self.wait_for(lambda: self.hosts_of(folder, 'run') == ['a', 'c'], first)
        self.wait_for(lambda: self.hosts_of(folder, 'run') == ['a', 'b', 'c'], first)
        others[1].send_signal(signal.SIGTERM)
        (_, said), *_ = self.end_of_training([first, *others], exit_code=75)
        for text in ('\nnode 1 cannot be used: it has not joined yet', 'running 1 rank on 1 of 3 hosts: a',
                     'host c can be used now: it joins after the next checkpoint', 'host b is lost: ', 'running 2 ranks on 2 of 3 hosts: a, c',
                     'on 2 workers: gradient_accumulation_steps: 6, was 4', 'host b can be used now: it joins after the next checkpoint'):
            self.assertIn(text, said)
        losses = self.losses(folder, 'run')
        self.assertEqual([step for step, *_ in losses], list(range(1, len(losses) + 1)))
        for (_, loss, _), (step, one, _) in zip(losses, self.losses(folder, 'one')):
            self.assertAlmostEqual(loss, one, delta=1e-6 * one, msg=f'step {step}')

    def test_name_servers_that_do_not_answer_keep_no_node_from_obeying(self):
        (self.work / 'resolv.conf').write_text(f'nameserver {self.hosts.net}.200\n')
        (self.work / 'nsswitch.conf').write_text('hosts: files dns\n')
        options = {'before': f'mount --bind {self.work}/resolv.conf /etc/resolv.conf; mount --bind {self.work}/nsswitch.conf /etc/nsswitch.conf'}
        start = time.monotonic()  # a name server is asked for 10 s or more
        late = self.start_node(1, '--join_timeout', '2', '--', 'true', place=('--node_rank', '1', '--master_addr', 'no.such.name'), **options)
        self.assertIn('within 2 s: the name servers do not answer', late.communicate(timeout=60)[1])
        self.assertLess(time.monotonic() - start, 7)
        self.assertEqual(late.returncode, 6)
        for node in (0, 1):
            process = self.start_node(node, '--join_timeout', '60', '--', 'true', place=('--node_rank', str(node), '--master_addr', 'no.such.name'),
                                      **options)
            if node == 0:
                self.wait_for(lambda: 29500 in listening_ports(self.hosts.first_process('a')), process)
            self.wait_for(lambda: self.asks_a_name_server(node), process)
            start = time.monotonic()
            process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=60)
            self.assertLess(time.monotonic() - start, 5)
            self.assertEqual(process.returncode, 143, err)

    def asks_a_name_server(self, node):
        """Whether any process on its host does."""
        sockets = pathlib.Path(f'/proc/{self.hosts.first_process(self.names[node])}/net/udp').read_text().splitlines()[1:]
        return any(socket.split()[2].endswith(':0035') for socket in sockets)

    def test_a_job_whose_node_0_cannot_run_ranks_ends_although_others_could(self):
        node = self.start_node(0, '--num_gpus', '64', '--', 'true', flags=('--nnodes', '1:2'))
        err = node.communicate(timeout=60)[1]
        self.assertIn('host a cannot be used: programs see ', err)
        self.assertEqual(node.returncode, 3, err)

    def test_a_spare_node_takes_the_ranks_of_a_lost_one(self):
        show = 'echo $TORCHELASTIC_RESTART_COUNT $RANK $(hostname); [ $TORCHELASTIC_RESTART_COUNT = 1 ] || exec sleep 1000'
        nodes = [self.start_node(node, '--', 'sh', '-c', show, flags=('--hosts', 'a:1,b:1,c:1', '--no_ssh', '--nnodes', '2:2'))
                 for node in range(3)]
        self.assertEqual(sorted(nodes[0].stdout.readline() for _ in range(2)), ['[r0] 0 0 a\n', '[r1] 0 1 b\n'])
        nodes[1].kill()
        nodes[1].communicate()
        (out, err), _ = [node.communicate(timeout=120) for node in (nodes[0], nodes[2])]
        self.assertEqual(sorted(out.splitlines()), ['[r0] 1 0 a', '[r1] 1 1 c'], err)
        self.assertIn('host c takes the ranks of host b', err)
        self.assertEqual([node.returncode for node in (nodes[0], nodes[2])], [0, 0])

    def test_a_node_that_comes_back_without_what_the_job_needs_is_left_out(self):
        logs = self.work / 'logs'
        logs.mkdir()
        show = 'echo $TORCHELASTIC_RESTART_COUNT $RANK $(hostname); until [ $TORCHELASTIC_RESTART_COUNT = 1 -a -e end ]; do sleep 0.1; done'

        def start(node, before='true'):
            return self.start_node(node, '--max_restarts', '1', '--log_dir', logs, '--', 'sh', '-c', show, flags=('--nnodes', '1:2'), before=before)

        first, second = start(0), start(1)
        self.assertEqual(sorted(first.stdout.readline() for _ in range(2)), ['[r0] 0 0 a\n', '[r1] 0 1 b\n'])
        second.kill()
        second.communicate()
        second = start(1, before=f'mount -t tmpfs -o ro tmpfs {logs}')
        left_out = 'this node is left out for the rest of the job: on host b logs cannot be written'
        self.read_until(left_out, second)
        second.send_signal(signal.SIGSTOP)
        time.sleep(16)
        second.send_signal(signal.SIGCONT)
        self.read_until(f'node 0 at {self.hosts.net}.1:29500 is lost', second)
        self.read_until(left_out, second)
        (self.work / 'end').touch()
        (out, err), _ = [node.communicate(timeout=120) for node in (first, second)]
        self.assertIn('host b is left out for the rest of the job: on host b logs cannot be written', err)
        self.assertEqual((out, [first.returncode, second.returncode]), ('1 0 a\n', [0, 0]), err)

    def test_nodes_that_train_in_other_folders_save_and_resume(self):
        folders = [self.prepare(name, 3) for name in ('of_0', 'of_1')]

        def train(*args):
            nodes = [self.start_node(node, '--config', 'config.json', '--device', 'cpu', '--num_workers', '1', '--run_dir', 'runs/ours', *args,
                                     command=('train',), cwd=folder) for node, folder in enumerate(folders)]
            return self.end_of_training(nodes)[0][1]

        self.assertIn('1 rank does not see the run folder, which is on a', train('--steps', '8'))
        self.assertTrue((folders[0] / 'runs/ours/checkpoints/step_00000008').is_dir())
        self.assertIn('resuming from step 5', train('--resume', 'runs/ours/checkpoints/step_00000005'))
        self.assertEqual([step for step, *_ in self.losses(folders[0], 'runs/ours')], list(range(1, 13)))
        self.assertEqual(sorted(path.name for path in (folders[1] / 'runs/ours').iterdir()), ['logs'])

    def test_a_node_that_cannot_join_yet_learns_how_the_job_has_ended(self):
        def start(node):
            return self.start_node(node, '--max_restarts', '1', '--', 'sh', '-c', 'echo $RANK; exec sleep 1000', env={'HGTRAIN_LOG': 'info'})

        first, second = start(0), start(1)
        self.assertEqual(sorted(first.stdout.readline() for _ in range(2)), ['[r0] 0\n', '[r1] 1\n'])
        second.kill()
        second.communicate()
        second = start(1)
        said = self.read_until('node 1 on b', first)  # while processes of the first one may be left
        self.assertIn('cannot join yet, and dials again', said)
        first.send_signal(signal.SIGTERM)
        (_, err), (_, told) = [node.communicate(timeout=60) for node in (first, second)]
        self.assertEqual([first.returncode, second.returncode], [143, 143], err + told)
        self.assertIn('has ended already, with exit code 143\n', told)

    def test_each_of_several_nodes_without_a_number_learns_how_the_job_has_ended(self):
        def start(node):
            return self.start_node(node, '--nproc_per_node', '1', '--max_restarts', '2', '--', 'sh', '-c', 'echo $RANK; exec sleep 1000',
                                   flags=('--nnodes', '1:3', '--rdzv_endpoint', f'{self.hosts.net}.1:29500'), place=(), env={'HGTRAIN_LOG': 'info'})

        first, *others = [start(node) for node in range(3)]
        self.assertEqual(sorted(first.stdout.readline() for _ in range(3)), ['[r0] 0\n', '[r1] 1\n', '[r2] 2\n'])
        for node in others:
            node.send_signal(signal.SIGSTOP)  # or the second would end its rank because the first is lost, and need no fence
        for node in others:
            node.kill()
            node.communicate()
        others = [start(node) for node in (1, 2)]
        said = ''
        while not all(f' on {name} (' in said for name in 'bc'):
            said += self.read_until('cannot join yet, and dials again', first)
        first.send_signal(signal.SIGTERM)
        nodes = [first, *others]
        said = [node.communicate(timeout=60)[1] for node in nodes]
        self.assertEqual([node.returncode for node in nodes], [143] * 3, said)

    def test_a_node_0_that_cannot_start_its_ranks_again_ends_the_job(self):
        logs = self.work / 'logs_of_0'
        logs.mkdir()
        fail = 'echo $RANK; until [ $RANK = 1 -a -e fail ]; do sleep 0.1; done; exit 1'
        nodes = [self.start_node(node, '--max_restarts', '3', '--log_dir', logs, '--', 'sh', '-c', fail, flags=('--nnodes', '1:2')) for node in range(2)]
        self.assertEqual(sorted(nodes[0].stdout.readline() for _ in range(2)), ['[r0] 0\n', '[r1] 1\n'])
        sh('nsenter', '-t', nodes[0].pid, '-m', 'mount', '-t', 'tmpfs', '-o', 'ro', 'tmpfs', logs)
        (self.work / 'fail').touch()
        ends = [node.communicate(timeout=120) for node in nodes]
        self.assertRegex(ends[0][1], 'no restart: host a cannot be used: cannot create .*: Read-only file system\n(?!  hint)')
        self.assertEqual([node.returncode for node in nodes], [1, 1], ends)

    def test_a_node_0_that_cannot_start_its_ranks_with_a_node_that_joins_ends_the_job_and_says_why(self):
        folder = self.prepare('no_growth', 3)

        def start(node):
            return self.start_node(node, '--config', 'config.json', '--device', 'cpu', '--num_workers', '1', '--run_dir', 'run', '--steps', '100000',
                                   '--max_restarts', '3', '--checkpoint.save_interval', '50', '--train_batch_size', '12', '--join_timeout', '2',
                                   flags=('--nnodes', '1:2'), command=('train',), cwd=folder)

        first = start(0)
        self.wait_for_step(folder, 'run', 60, first)
        (folder / 'run/logs').rename(folder / 'run/logs_before')
        (folder / 'run/logs').touch()
        second = start(1)
        ends = [node.communicate(timeout=120) for node in (first, second)]
        self.assertRegex(ends[0][1], 'error: host a cannot be used: run/logs is not a folder that logs can be written to\n'
                                     '  host a could not start the ranks again\n')
        self.assertNotIn('is left out', ends[0][1])
        self.assertEqual([first.returncode, second.returncode], [2, 2], ends)


if __name__ == '__main__':
    main()
