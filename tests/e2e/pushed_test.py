"""distributed.push_data: hosts that lack the data get it, once, and what is wrong there is named before anything starts. See hosts.py."""
import contextlib
import shutil
import subprocess

import hosts
from hosts import PROGRAM, HostsCase, sh

DATA = ('data.bin', 'data.idx', 'data.json')


class PushedTest(HostsCase):
    def ssh(self, host, line):
        return sh(self.hosts.folder / 'bin/ssh', host, line).stdout

    @contextlib.contextmanager
    def without_folder(self, name):
        """A training whose folder is empty on b; with what the losses are on this machine."""
        folder = self.prepare(name, 3)
        sh(PROGRAM, '--config', 'config.json', '--device', 'cpu', '--num_workers', '4', '--run_dir', 'alone', cwd=folder)
        with self.hosts.without('b', folder):
            yield folder

    def push(self, folder, run, *args, **options):
        return self.train_on_hosts(folder, run, '--distributed.push_data', 'true', *args, **options)

    def test_a_host_gets_what_it_lacks_once(self):
        with self.without_folder('once') as folder:
            _, err = self.push(folder, 'run')
            missing = ', '.join(f'{folder}/{name}' for name in DATA)
            self.assertRegex(err, rf'host b lacks {missing}.*: sending \d+ KiB\n')
            self.assertNotIn('host a lacks', err)
            self.assertEqual(self.losses(folder, 'run'), self.losses(folder, 'alone'))
            for name in DATA:
                self.assertEqual(self.ssh('b', f'sha256sum < {folder}/{name}'), sh('sh', '-c', f'sha256sum < {folder}/{name}').stdout)
            self.assertNotIn('.part-', self.ssh('b', f'ls {folder}'))
            _, err = self.push(folder, 'again')
            self.assertNotIn('lacks', err)
            self.ssh('b', f'touch {folder}/data.bin')  # of another time, but the same
            _, err = self.push(folder, 'once_more')
            self.assertNotIn('lacks', err)

    def test_without_the_key_a_host_that_lacks_the_data_is_an_error(self):
        with self.without_folder('not_asked') as folder:
            _, err = self.train_on_hosts(folder, 'run', exit_code=2)
            self.assertIn(f'host b has no token file {folder}/data\n  hint: ', err)
            self.assertIn('hint: `--distributed.push_data true` sends it there', err)
            self.assertNotIn('lacks', err)

    def test_a_file_that_is_another_one_is_named_and_kept(self):
        with self.without_folder('other') as folder:
            for text, said in (('something', 'has 9 bytes there, and'), ('', 'has 0 bytes there')):
                self.ssh('b', f'printf "{text}" > {folder}/data.bin')
                _, err = self.push(folder, 'run_' + (text or 'empty'), exit_code=3)
                self.assertIn(f'host b cannot be used: {folder}/data.bin {said}', err)
                self.assertEqual(self.ssh('b', f'cat {folder}/data.bin'), text)
            size = (folder / 'data.bin').stat().st_size
            self.ssh('b', f'head -c {size} /dev/zero > {folder}/data.bin')
            _, err = self.push(folder, 'zeros', exit_code=3)
            self.assertIn(f'host b cannot be used: {folder}/data.bin is another file there', err)

    def test_a_full_disk_is_named_before_anything_starts(self):
        with self.without_folder('full') as folder:
            sh('nsenter', '-t', self.hosts.first_process('b'), '-m', 'mount', '-o', 'remount,size=2m', folder)
            (folder / 'text.txt').write_text((folder / 'text.txt').read_text() * 30)
            sh(PROGRAM, 'data', 'prepare', '--input', 'text.txt', '--out', 'large', cwd=folder)
            _, err = self.push(folder, 'run', '--data.train_data_path', 'large', exit_code=3)
            self.assertRegex(err, rf'host b cannot be used: it lacks \d MiB of {folder}/large\.bin, but has only \d MiB free')
            self.assertFalse((folder / 'run/metrics.jsonl').exists())

    def test_weights_go_to_hosts_that_see_the_run_folder(self):
        with self.without_folder('weights') as folder:
            shutil.copytree(sorted((folder / 'alone/checkpoints').glob('step_*'))[-1], folder / 'weights')
            init = ('--model.init', 'weights')
            _, err = self.push(folder, 'unseen', *init)
            self.assertNotIn('model.safetensors', err)
            runs = self.work / 'runs'  # that both see
            runs.mkdir()
            _, err = self.push(folder, runs / 'seen', *init)
            self.assertRegex(err, f'host b lacks .*{folder}/weights/model.safetensors')
            self.assertNotIn('optimizer', err)
            self.assertEqual(self.losses(folder, runs / 'seen'), self.losses(folder, 'unseen'))

    def test_a_checkpoint_of_another_folder_goes_to_hosts_that_see_the_run_folder(self):
        with self.without_folder('checkpoint') as folder:
            runs = self.work / 'runs_of_checkpoint'  # that both see
            runs.mkdir()
            checkpoint = 'alone/checkpoints/step_00000010'
            self.push(folder, runs / 'resumed', '--resume', checkpoint)
            self.assertEqual(self.ssh('b', f'cd {folder}/{checkpoint} && sha256sum *'), sh('sh', '-c', 'sha256sum *', cwd=folder / checkpoint).stdout)
            self.assertEqual(self.losses(folder, runs / 'resumed'), self.losses(folder, 'alone')[10:])
            # As if the job had been killed before it saved a checkpoint of its own.
            for saved in (runs / 'resumed/checkpoints').glob('*'):
                shutil.rmtree(saved) if saved.is_dir() else saved.unlink()
            (runs / 'resumed/checkpoints/origin').write_text(f'{0:016x}\n{folder / checkpoint}\n')
            self.ssh('b', f'rm -r {folder}/{checkpoint}')
            self.push(folder, runs / 'resumed', '--resume', 'auto')
            self.assertEqual(self.losses(folder, runs / 'resumed'), self.losses(folder, 'alone')[10:])

    def test_nodes_that_dial_in_get_the_data_too(self):
        with self.without_folder('nodes') as folder:
            (self.work / 'secret').write_text('SeCrEt' * 8)
            (self.work / 'secret').chmod(0o600)
            command = (f'cd {folder} && {PROGRAM} --config config.json --device cpu --num_workers 2 --run_dir run --nnodes 2 '
                       f'--master_addr {self.hosts.net}.1 --job_secret_file {self.work}/secret --distributed.push_data true --node_rank ')
            nodes = [subprocess.Popen([self.hosts.folder / 'bin/ssh', host, command + str(rank)], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                     for rank, host in enumerate('ab')]
            said = [node.communicate(timeout=300)[0] for node in nodes]
            self.assertEqual([node.returncode for node in nodes], [0, 0], said)
            self.assertIn('host b lacks data.bin', said[0])
            self.assertEqual(self.losses(folder, 'run'), self.losses(folder, 'alone'))


if __name__ == '__main__':
    hosts.main()
