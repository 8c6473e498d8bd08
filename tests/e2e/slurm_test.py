"""Jobs under a real Slurm, whose nodes are the two hosts of hosts.py. Without Slurm and munge, it ends with 77."""
import contextlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import time

import hosts
from hosts import MARK, PROGRAM, HostsCase

TOOLS = ('srun', 'salloc', 'sbatch', 'scancel', 'scontrol', 'slurmctld', 'slurmd', 'munged')
PATH = os.environ['PATH'] + ':/usr/sbin'
SECRET = 'job secret ' + 'SeCrEt' * 4
CONFIG = """\
ClusterName=test
SlurmctldHost=head({net}.254)
SlurmctldPort=16817
CommunicationParameters=NoCtldInAddrAny
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=15
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
ReturnToService=2
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
SlurmdParameters=config_overrides
KillWait=30
SwitchType=switch/none
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
GresTypes=gpu
NodeName=a NodeAddr={net}.1 Port=16818 CPUs=8 Gres=gpu:2
NodeName=b NodeAddr={net}.2 Port=16818 CPUs=8 Gres=gpu:2
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=p Nodes=a,b Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES PriorityTier=1 GraceTime=60
PartitionName=first Nodes=a,b MaxTime=INFINITE State=UP PriorityTier=2 PreemptMode=OFF
"""


class SlurmTest(HostsCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = cls.hosts.folder / 'slurm'
        (cls.folder / 'state').mkdir(parents=True)
        os.chmod(cls.folder.parent, 0o755)
        cls.env = {**os.environ, 'PATH': PATH, 'SLURM_CONF': str(cls.folder / 'slurm.conf')}
        (cls.folder / 'slurm.conf').write_text(CONFIG.format(folder=cls.folder, net=cls.hosts.net))
        (cls.folder / 'gres.conf').write_text(f'NodeName=a,b Name=gpu File={cls.folder}/gpu[0-1]\n')
        for i in range(2):
            os.mknod(cls.folder / f'gpu{i}', stat.S_IFCHR, os.makedev(1, 3))  # Slurm takes devices only
        key = cls.folder / 'key'
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        cls.serve('munged', '--foreground', '--force', f'--key-file={key}', f'--socket={cls.folder}/munge.socket',
                  f'--pid-file={cls.folder}/munged.pid', f'--log-file={cls.folder}/munged.log', f'--seed-file={cls.folder}/seed')
        names = cls.folder / 'names'
        names.write_text(f'127.0.0.1 localhost\n{cls.hosts.net}.1 a\n{cls.hosts.net}.2 b\n{cls.hosts.net}.254 head\n')
        cls.serve('unshare', '-m', '-u', 'sh', '-c', f'hostname head; mount --bind {names} /etc/hosts; exec slurmctld -D -c')
        for name in 'ab':
            inside = ['nsenter', '-t', str(cls.hosts.first_process(name)), '-n', '-u', '-i']
            cls.serve(*inside, 'unshare', '-m', 'sh', '-c', f'mount -t tmpfs tmpfs /dev/shm; mount --bind {names} /etc/hosts; exec slurmd -D -N {name}')
        cls.wait_for_nodes()

    @classmethod
    def wait_for_nodes(cls):
        deadline = time.monotonic() + 60
        while subprocess.run(['timeout', '20', 'srun', '-N2', 'true'], env=cls.env, capture_output=True).returncode != 0:
            if time.monotonic() > deadline:
                raise AssertionError((cls.folder / 'slurmctld.log').read_text())

    @classmethod
    def serve(cls, *command):
        daemon = subprocess.Popen(command, env=cls.env, cwd='/', stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        cls.addClassCleanup(daemon.wait)
        cls.addClassCleanup(daemon.terminate)

    @classmethod
    def srun(cls, *command, env=(), cwd=None):
        return subprocess.Popen(['srun', '--overlap', *command], text=True, cwd=cwd or cls.work, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                env={**cls.env, MARK: '1', 'HGTRAIN_JOB_SECRET': SECRET, **dict(env)})

    def launch(self, srun, *args, exit_code=0, **options):
        process = self.srun(*srun, PROGRAM, 'launch', '--master_addr', f'{self.hosts.net}.1', *args, **options)
        out, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, exit_code, out + err)
        return out, err

    def test_a_task_for_each_node(self):
        out, _ = self.launch(['-N2', '--ntasks-per-node=1'], '--nproc_per_node', '2', '--', 'sh', '-c',
                             'echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $NODE_RANK/$GROUP_WORLD_SIZE $(hostname) $(env | grep -c SeCrEt)')
        self.assertEqual(sorted(out.splitlines()),
                         [f'[r{rank}] {rank}/4 {rank % 2}/2 {rank // 2}/2 {"ab"[rank // 2]} 0' for rank in range(4)])

    def test_a_task_for_each_worker(self):
        for order, places in (('block', ('a0', 'a1', 'b0', 'b1')), ('cyclic', ('a0', 'b0', 'a1', 'b1'))):
            out, _ = self.launch(['-N2', '--ntasks-per-node=2', '-m', order], '--', 'sh', '-c',
                                 'echo $RANK/$WORLD_SIZE $(hostname)$LOCAL_RANK of $LOCAL_WORLD_SIZE, $NODE_RANK of $GROUP_WORLD_SIZE')
            self.assertEqual(sorted(out.splitlines()), [f'[r{rank}] {rank}/4 {place} of 2, {"ab".index(place[0])} of 2'
                                                        for rank, place in enumerate(places)])

    # A driver that sees the two GPUs of a node, and a device in place of each (tests/emulation).
    GPUS = {'FAKE_GPUS': '2', 'LD_LIBRARY_PATH': ':'.join(str(PROGRAM.parent / 'tests' / name) for name in ('emulation', 'machine'))}

    def test_each_rank_has_a_gpu_of_its_own(self):
        show = '--', 'sh', '-c', 'echo $RANK $(hostname) local $LOCAL_RANK sees $CUDA_VISIBLE_DEVICES'
        for tasks, gpus, places in ((1, '--gpus-per-node=2', ('0 sees 0,1', '1 sees 0,1')),
                                    (2, '--gpus-per-node=2', ('0 sees 0,1', '1 sees 0,1')),
                                    (2, '--gpus-per-task=1', ('0 sees 0', '0 sees 1'))):
            out, _ = self.launch(['-N2', f'--ntasks-per-node={tasks}', gpus], *show, env=self.GPUS)
            self.assertEqual(sorted(out.splitlines()),
                             [f'[r{rank}] {rank} {"ab"[rank // 2]} local {places[rank % 2]}' for rank in range(4)], (tasks, gpus))

    def test_training_takes_the_gpu_of_each_task(self):
        if not (PROGRAM.parent / 'tests/emulation/hgtrain_cuda.so').exists():
            self.skipTest('a build without the emulation')
        programs = self.work / 'programs'  # next to the built ones there may be a module of real CUDA
        programs.mkdir()
        for name in 'hgtrain', 'hgtrain-worker':
            shutil.copy(PROGRAM.parent / name, programs)
        folder = self.prepare('gpus', 3)
        for run, *device in (('cpu', '--device', 'cpu', '--num_workers', '1'), ('gpu', '--distributed.backend', 'gloo')):
            process = self.srun('-N2', '--ntasks-per-node=2', '--gpus-per-task=1', 'sh', '-c', 'FAKE_MACHINE=$(hostname) exec "$0" "$@"',
                                programs / 'hgtrain', '--config', 'config.json', '--run_dir', run, '--master_addr', f'{self.hosts.net}.1', *device,
                                '--training.train_iters', '4', '--train_batch_size', '4', '--training.seq_length', '4', cwd=folder, env=self.GPUS)
            out, err = process.communicate(timeout=300)
            self.assertEqual(process.returncode, 0, out + err)
        self.assertIn(', cuda by graphs, ', (folder / 'gpu/logs/rank_3.log').read_text())
        for ours, cpus in zip(self.losses(folder, 'gpu'), self.losses(folder, 'cpu'), strict=True):
            self.assertAlmostEqual(ours[1], cpus[1], delta=1e-4 * cpus[1])

    def test_the_first_node_is_found_by_its_name(self):
        out, err = self.srun('-N2', PROGRAM, 'launch', '--', 'hostname').communicate(timeout=120)
        self.assertEqual(sorted(out.splitlines()), ['[r0] a', '[r1] b'], err)

    def test_the_exit_code_is_that_of_the_first_rank_that_failed(self):
        _, err = self.launch(['-N2'], '--', 'sh', '-c', '[ $RANK = 1 ] && exit 7; exec sleep 1000', exit_code=7)
        self.assertRegex(err, r'error: rank 1 of 2 \(pid \d+ on b\) exited with code 7')

    def test_hosts_under_srun_are_an_error_that_explains(self):
        _, err = self.launch(['-N2'], '--hosts', 'a,b', '--', 'true', exit_code=2)
        self.assertIn('srun has started 2 of this command, and --hosts lets each of them start a job of its own over ssh', err)

    def test_one_task_is_a_local_job(self):
        process = self.srun('-N1', '-n1', PROGRAM, 'launch', '--nproc_per_node', '2', '--', 'sh', '-c', 'echo $RANK')
        out, err = process.communicate(timeout=120)
        self.assertEqual(sorted(out.splitlines()), ['[r0] 0', '[r1] 1'], err)

    def start_in_allocation(self, *args):
        """With --launcher slurm, and no secret that is given."""
        flags = ['--launcher', 'slurm', '--master_addr', f'{self.hosts.net}.1']
        return subprocess.Popen(['salloc', '-N2', PROGRAM, 'launch', *flags, *args], text=True, cwd=self.work, env={**self.env, MARK: '1'},
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def test_the_launcher_slurm_starts_each_node_of_the_allocation_with_a_secret_of_the_job(self):
        out, err = self.start_in_allocation('--nproc_per_node', '2', '--', 'sh', '-c', 'echo $RANK $(hostname) $(env | grep -c HGTRAIN_JOB_SECRET) "$@"',
                                            'sh', '--launcher', 'mine').communicate(timeout=120)
        self.assertEqual(sorted(out.splitlines()), [f'[r{rank}] {rank} {"ab"[rank // 2]} 0 --launcher mine' for rank in range(4)], err)

    def test_the_launcher_slurm_needs_an_allocation_and_takes_its_nodes(self):
        for flags, env, said in (([], {}, 'this shell has none'),
                                 (['--hosts', 'a,b'], {'SLURM_JOB_ID': '1'}, '--hosts: the nodes are those of the allocation'),
                                 (['--nnodes', '3'], {'SLURM_JOB_ID': '1', 'SLURM_JOB_NUM_NODES': '2'}, 'more than the nodes of the allocation, 2')):
            done = subprocess.run([PROGRAM, 'launch', '--launcher', 'slurm', *flags, '--', 'true'], text=True, capture_output=True,
                                  env={**self.env, **env})
            self.assertEqual(done.returncode, 2, done)
            self.assertIn(said, done.stderr)
        _, err = self.launch(['-N2'], '--launcher', 'slurm', '--', 'true', exit_code=2)
        self.assertIn('srun has already started 2 of this command', err)

    @contextlib.contextmanager
    def submitted(self, name, variables=()):
        """The folder of a training that a job trains on both nodes, and the job's number. Later the job is cancelled."""
        folder = self.prepare(name, 3)
        submit = [PROGRAM, 'submit', 'slurm', 'config.json', '--nodes', '2', '--num_workers', '2', '--time', '5', '--run_dir', 'run',
                  '--training.train_iters', '1000000']
        env = {**self.env, MARK: '1', **dict(variables)}
        script = subprocess.run([*submit, '--dry_run'], text=True, capture_output=True, cwd=folder, env=env, check=True).stdout
        subprocess.run(['sbatch', '--test-only'], input=script, text=True, env=env, cwd=folder, check=True, capture_output=True)
        done = subprocess.run(submit, text=True, capture_output=True, cwd=folder, env=env)
        self.assertEqual(done.returncode, 0, done)
        job = done.stdout.split()[-1]
        try:
            self.wait_for_job(folder, job, lambda: (folder / 'run/metrics.jsonl').exists() and (folder / 'run/metrics.jsonl').read_text())
            self.assertEqual([worker['host'] for worker in json.loads((folder / 'run/run.json').read_text())['workers']], list('aabb'))
            yield folder, job
        finally:
            subprocess.run(['scancel', job], env=env, check=True)

    def state(self, job):
        return subprocess.run(['scontrol', 'show', 'job', job], text=True, capture_output=True, env=self.env).stdout

    def wait_for_job(self, folder, job, condition):
        output = folder / f'config-{job}.out'
        deadline = time.monotonic() + 120
        while not condition():
            self.assertLess(time.monotonic(), deadline, (output.read_text() if output.exists() else '') + self.state(job))
            time.sleep(0.05)

    def test_a_job_that_sbatch_refuses(self):
        folder = self.prepare('refused', 3)
        done = subprocess.run([PROGRAM, 'submit', 'slurm', 'config.json', '--num_workers', '1', '--partition', 'nowhere'], text=True, capture_output=True,
                              cwd=folder, env=self.env)
        self.assertEqual(done.returncode, 2, done)
        self.assertIn('invalid partition specified: nowhere', done.stderr)
        self.assertTrue(done.stderr.endswith('error: sbatch has failed; its own message is above\n'), done.stderr)

    def test_a_submitted_training_saves_before_its_time_is_over_and_is_queued_again(self):
        with self.submitted('submitted') as (folder, job):
            subprocess.run(['scancel', '--batch', '--signal', 'USR1', job], env=self.env, check=True)  # as before its time is over
            self.wait_for_job(folder, job, lambda: 'Restarts=1' in self.state(job))
            self.assertTrue(list((folder / 'run/checkpoints').glob('step_*')))

    def test_a_submitted_training_that_is_preempted_saves_and_is_queued_again(self):
        with self.submitted('preempted') as (folder, job):
            subprocess.run(['timeout', '60', 'srun', '-p', 'first', '-N2', '--exclusive', 'true'], env=self.env, check=True, capture_output=True)
            self.wait_for_job(folder, job, lambda: 'Restarts=1' in self.state(job))
            saved = sorted((folder / 'run/checkpoints').glob('step_*'))[-1]
            last = int(saved.name.split('_')[1])
            metrics = folder / 'run/metrics.jsonl'
            self.wait_for_job(folder, job, lambda: f'"step":{last + 1},' in metrics.read_text())  # Slurm lets it wait for cred_expire first
            self.assertIn(f'resuming from step {last}: {saved.relative_to(folder)}\n', (folder / f'config-{job}.out').read_text())
            self.assertEqual(re.findall(r'"step":(\d+)', metrics.read_text())[:last + 1], [str(step) for step in range(1, last + 2)])

    def test_a_submitted_training_that_loses_a_node_is_queued_again(self):
        with self.submitted('lost', {'SLURM_WAIT': '5'}) as (folder, job):
            output = folder / f'config-{job}.out'
            with self.hosts.unreachable('b'):  # so Slurm does not hear that the task on b has ended
                self.wait_for_job(folder, job, lambda: 'host b is lost: nothing has come from it for 15 s' in output.read_text())
                self.wait_for_job(folder, job, lambda: 'Restarts=1' in self.state(job))
        for state in 'down', 'resume':  # Slurm would wait for the job's end on b for minutes; it may resume b itself
            subprocess.run(['scontrol', 'update', 'nodename=b', f'state={state}', 'reason=test'], env=self.env, check=state == 'down')
        self.wait_for_nodes()

    def test_a_submitted_training_that_is_stopped_stays_ended(self):
        with self.submitted('stopped') as (folder, job):
            subprocess.run([PROGRAM, 'stop', 'run'], cwd=folder, check=True, capture_output=True)
            self.wait_for_job(folder, job, lambda: 'JobState=FAILED' in self.state(job))
            self.assertRegex(self.state(job), r'Restarts=0 .*ExitCode=75:0')
            self.assertIn(f'  resume with: {PROGRAM} submit slurm config.json --nodes 2 --num_workers 2 --time 5 --run_dir run --training.train_iters 1000000\n',
                          (folder / f'config-{job}.out').read_text())

    def train(self, name):
        folder = self.prepare(name, 3)
        process = self.srun('-N2', '--job-name', name, PROGRAM, '--config', 'config.json', '--device', 'cpu', '--num_workers', '1',
                            '--master_addr', f'{self.hosts.net}.1', '--run_dir', 'run', '--steps', '1000000', cwd=folder)
        deadline = time.monotonic() + 60
        while not (folder / 'run/metrics.jsonl').exists() or len((folder / 'run/metrics.jsonl').read_text().splitlines()) < 6:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        return folder, process

    def test_a_preemption_saves_on_all_nodes(self):
        for name in ('USR1', 'TERM'):
            folder, process = self.train('preempted_' + name)
            subprocess.run(['scancel', '--signal', name, '--name', folder.name], env=self.env, check=True)
            out, err = process.communicate(timeout=120)
            self.assertEqual(process.returncode, 75, out + err)
            self.assertTrue(list((folder / 'run/checkpoints').glob('step_*')))

    def test_nothing_is_left_of_a_job_that_is_cancelled(self):
        process = self.srun('-N2', '--job-name', 'cancelled', PROGRAM, 'launch', '--master_addr', f'{self.hosts.net}.1', '--', 'sh', '-c',
                            'echo ready $RANK; exec sleep 1000')
        for _ in range(2):
            self.assertIn('ready', process.stdout.readline())
        subprocess.run(['scancel', '--name', 'cancelled'], env=self.env, check=True)
        process.communicate(timeout=120)
        self.assertNotEqual(process.returncode, 0)
        self.wait_until_nothing_is_left()


if __name__ == '__main__':
    if missing := [tool for tool in TOOLS if not shutil.which(tool, path=PATH)]:
        print('skipped: no', *missing, '(apt-get install slurmctld slurmd slurm-client munge)')
        sys.exit(77)
    hosts.main()
