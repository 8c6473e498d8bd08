"""Jobs under Open MPI's mpirun, on the two hosts of hosts.py. Without mpirun, it ends with 77."""
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time

import hosts
from hosts import MARK, PROGRAM, HostsCase, sh

SECRET = 'job secret ' + 'SeCrEt' * 4


class MpiTest(HostsCase):
    def mpirun(self, *args, where='a:2,b:2', exit_code=0, master=True):
        command = ['mpirun', '--allow-run-as-root', '--bind-to', 'none', '--mca', 'plm_rsh_agent', f'{self.hosts.folder}/bin/ssh', '--mca',
                   'oob_tcp_if_include', f'{self.hosts.net}.0/24', '--host', where, '-x', 'HGTRAIN_JOB_SECRET']
        flags = ['--master_addr', f'{self.hosts.net}.1'] if master else []
        split = args.index('launch')
        process = subprocess.Popen([*command, *args[:split], PROGRAM, 'launch', *flags, *args[split + 1:]], text=True, cwd=self.work,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, MARK: '1', 'HGTRAIN_JOB_SECRET': SECRET})
        out, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, exit_code, out + err)
        return out, err

    def test_a_process_for_each_node(self):
        out, _ = self.mpirun('--map-by', 'ppr:1:node', 'launch', '--nproc_per_node', '2', '--', 'sh', '-c',
                             'echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $NODE_RANK/$GROUP_WORLD_SIZE $(hostname) $(env | grep -c S[e]CrEt)')
        self.assertEqual(sorted(out.splitlines()),
                         [f'[r{rank}] {rank}/4 {rank % 2}/2 {rank // 2}/2 {"ab"[rank // 2]} 0' for rank in range(4)])

    def test_a_process_for_each_worker(self):
        out, _ = self.mpirun('--map-by', 'slot', 'launch', '--', 'sh', '-c', 'echo $RANK/$WORLD_SIZE $(hostname) $LOCAL_RANK/$LOCAL_WORLD_SIZE')
        self.assertEqual(sorted(out.splitlines()), [f'[r{rank}] {rank}/4 {"ab"[rank // 2]} {rank % 2}/2' for rank in range(4)])

    def test_the_report_comes_before_mpirun_ends_the_others(self):
        _, err = self.mpirun('--map-by', 'ppr:1:node', 'launch', '--', 'sh', '-c', '[ $RANK = 1 ] && exit 7; exec sleep 1000', exit_code=7)
        self.assertRegex(err, r'error: rank 1 of 2 \(pid \d+ on b\) exited with code 7')

    def start_openmpi(self, *args, command=('launch',), cwd=None, **env):
        """With --launcher openmpi, and no secret that is given."""
        path = f'{self.hosts.folder}/bin:' + os.environ['PATH']
        flags = ['--launcher', 'openmpi', '--master_addr', f'{self.hosts.net}.2']
        return subprocess.Popen([PROGRAM, *command, *flags, *args], text=True, cwd=cwd or self.work, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                env={**os.environ, MARK: '1', 'PATH': path, 'OMPI_MCA_oob_tcp_if_include': f'{self.hosts.net}.0/24', **env})

    def test_the_launcher_openmpi_starts_the_hosts_in_their_order_with_their_slots_and_a_secret_of_the_job(self):
        (self.work / 'mpi_hosts').write_text('b slots=1 gpus=5\na slots=2\n')
        show = 'echo $RANK $(hostname) $CUDA_VISIBLE_DEVICES $WORD $(env | grep -c "^HGTRAIN_JOB_SECRET\|^HGTRAIN_TYPED_COMMAND") $PWD "$@"'
        out, err = self.start_openmpi('--hostfile', 'mpi_hosts', '--export', 'WORD', '--', 'sh', '-c', show, 'sh', '--launcher', 'mine',
                                      WORD='said').communicate(timeout=120)
        rest = f'said 0 {self.work} --launcher mine'
        self.assertEqual(sorted(out.splitlines()), [f'[r0] 0 b 5 {rest}', f'[r1] 1 a {rest}', f'[r2] 2 a {rest}'], err)

    def test_the_launcher_openmpi_can_start_one_host(self):
        out, err = self.start_openmpi('--hosts', 'b:2', '--', 'sh', '-c', 'echo $RANK $(hostname)').communicate(timeout=120)
        self.assertEqual(sorted(out.splitlines()), ['[r0] 0 b', '[r1] 1 b'], err)

    def test_a_host_that_is_down_ends_mpirun_and_its_ssh_within_seconds(self):
        neighbour = (f'{self.hosts.net}.1', 'dev', self.hosts.bridge)
        sh('ip', 'neigh', 'replace', *neighbour, 'lladdr', '02:00:00:00:00:99', 'nud', 'permanent')  # nothing says that the host is down
        try:
            start = time.monotonic()
            process = self.start_openmpi('--hosts', 'b,a', '--', 'true')
            _, err = process.communicate(timeout=60)
            self.assertGreater(process.returncode, 0, err)
            self.wait_until_nothing_is_left(20)
            self.assertLess(time.monotonic() - start, 40)
        finally:
            sh('ip', 'neigh', 'del', *neighbour)

    def test_each_host_needs_the_hostfile_that_mpirun_starts(self):
        (self.work / 'here').mkdir()
        (self.work / 'here/hosts').write_text('b slots=1\na slots=1\n')
        with self.hosts.without('a', self.work / 'here'):
            process = self.start_openmpi('--hostfile', 'here/hosts', '--', 'true')
            _, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 2, err)
        self.assertIn('there is no hostfile here/hosts on a', err)

    def test_a_training_under_mpirun_saves_at_a_signal(self):
        folder = self.prepare('training', 3)
        process = self.start_openmpi('--config', 'config.json', '--device', 'cpu', '--hosts', 'b:1,a:1', '--run_dir', 'run', '--steps', '1000000',
                                     command=('train',), cwd=folder)
        metrics = folder / 'run/metrics.jsonl'
        self.wait_for(lambda: metrics.exists() and metrics.read_text(), process)
        process.send_signal(signal.SIGUSR1)
        out, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 75, out + err)
        self.assertTrue(list((folder / 'run/checkpoints').glob('step_*')))
        self.assertIn(f'  resume with: {shlex.join(map(str, process.args))} --resume auto\n', err)

    def test_the_address_of_the_first_node_must_be_given(self):
        _, err = self.mpirun('--map-by', 'ppr:1:node', 'launch', '--', 'true', master=False, exit_code=2)
        self.assertIn('add --master_addr with', err)


if __name__ == '__main__':
    if not shutil.which('mpirun'):
        print('skipped: no mpirun (apt-get install openmpi-bin)')
        sys.exit(77)
    hosts.main()
