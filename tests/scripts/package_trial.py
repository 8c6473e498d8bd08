"""Tries the packages of scripts/package as somebody does who has no build tools: moved twice, from a read-only folder, with a /tmp and a
home in which no file may be executed, and in clean roots; and the Dockerfile, in images of these roots, if buildah is installed.
usage: package_trial.py [FOLDER...]    each has such a root, as `debootstrap --variant=minbase RELEASE FOLDER` makes it
Needs root, and packages in dist/; without them it ends with 77."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
ARCHIVE = next((SOURCE / 'dist').glob('hgtrain-*-x86_64.tar.zst'), None)
DEB = next((SOURCE / 'dist').glob('hgtrain_*.deb'), None)
ROOTS = [pathlib.Path(root).resolve() for root in sys.argv[1:]]
PROGRAM = 'bin/hgtrain'
MIN_GLIBC = (2, 35)  # docs/install.md
# Data, a training by two workers, its text and all that the other commands print. $1 is the program.
QUICKSTART = r"""set -e
yes 'the quick brown fox jumps over a lazy dog' | head -n 3000 > text.txt
$1 data prepare --input text.txt --out data > /dev/null
cat > config.json <<END
{"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 3e-3}}, "data": {"train_data_path": "data"},
 "model": {"model_type": "gpt2", "n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 32},
 "training": {"train_iters": 12, "seq_length": 32}, "hardware": {"threads": 1}}
END
$1 --config config.json --device cpu --num_workers 2 --run_dir run 2> said || { cat said >&2; exit 1; }
$1 generate --model run --prompt 'the quick' --max_tokens 4 --device cpu > generated
$1 doctor --json > doctor
$1 completion bash > completion
tail -n 1 run/metrics.jsonl
"""

# The Debian package is installed and removed. $1 is hgtrain.
INSTALLED = r"""set -e
list() { find / -xdev -path /proc -prune -o -path /var/lib/dpkg -prune -o -path /var/log -prune -o -print | sort; }
list > /var/log/before
dpkg -i /hgtrain.deb > /dev/null
dpkg --verify hgtrain
for x in man/man1/hgtrain-train.1 bash-completion/completions/hgtrain.bash zsh/vendor-completions/_hgtrain \
  fish/vendor_completions.d/hgtrain.fish doc/hgtrain/copyright hgtrain/configs/quickstart.json; do test -s /usr/share/$x; done
(mkdir /trial; cd /trial; QUICKSTART)
rm -r /trial
dpkg --purge hgtrain > /dev/null
list > /var/log/after
diff /var/log/before /var/log/after >&2
""".replace('QUICKSTART', QUICKSTART)
# Somebody who is not root unpacks it where they like: Debian and Ubuntu come without zstd. $1 is where the program then is.
UNPACKED = r"""set -e
install -d -o 1000 -g 1000 /home/trial
setpriv --reuid 1000 --regid 1000 --clear-groups env HOME=/home/trial sh -c 'cd; dpkg-deb -x /hgtrain.deb hgtrain; eval "$2"' sh "$@"
"""


def glibc_of(root):
    said = subprocess.run(['chroot', root, 'ldd', '--version'], text=True, capture_output=True, check=True).stdout
    return tuple(map(int, re.search(r' (\d+)\.(\d+)$', said, re.M).groups()))


class PackageTrial(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir='/var/tmp'))
        self.addCleanup(shutil.rmtree, self.folder)
        subprocess.run(['tar', 'xf', ARCHIVE, '-C', self.folder], check=True)
        self.package, = self.folder.iterdir()
        self.work = self.folder / 'work'
        self.work.mkdir()

    def run_in_namespaces(self, mounts, root, work, *command):
        """In a mount and a process namespace, after `mounts`."""
        script = f'{mounts} && exec chroot {root} env -C {work} "$@"'
        return subprocess.run(['unshare', '-m', '-p', '--fork', '--mount-proc', 'sh', '-c', script, 'sh', *command], text=True,
                              capture_output=True, env={'PATH': '/usr/bin:/bin:/usr/sbin:/sbin', 'HOME': str(work)})

    def quickstart(self, program, mounts='true', root='/', work=None):
        return self.loss_of(self.run_in_namespaces(mounts, root, work or self.work, 'sh', '-c', QUICKSTART, 'sh', program))

    def loss_of(self, done):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        last = json.loads(done.stdout)
        self.assertEqual(last['step'], 12)
        return last['loss']

    def test_it_can_be_moved(self):
        first = self.quickstart(self.package / PROGRAM)
        for place in ('once', 'deeper/twice'):
            moved = self.folder / place
            moved.parent.mkdir(exist_ok=True)
            self.package = self.package.rename(moved)
        shutil.rmtree(self.work)
        self.work.mkdir()
        self.assertEqual(self.quickstart(self.package / PROGRAM), first)
        listed = subprocess.run(['ldd', self.package / 'bin/hgtrain'], text=True, capture_output=True, check=True).stdout
        self.assertRegex(listed, rf'libzstd\S+ => {self.package}/bin/\.\./lib/hgtrain/')

    def test_it_runs_from_a_folder_that_is_read_only(self):
        self.quickstart(self.package / PROGRAM, f'mount --bind {self.package} {self.package} && mount -o remount,bind,ro {self.package} && '
                                      f'! touch {self.package}/bin/x 2> /dev/null')

    def test_it_runs_if_no_file_in_tmp_and_home_may_be_executed(self):
        self.quickstart(self.package / PROGRAM, f'mount -t tmpfs -o noexec tmpfs /tmp && mount -t tmpfs -o noexec tmpfs {self.work} && '
                                      'cp /bin/true /tmp && ! /tmp/true 2> /dev/null')

    def test_it_runs_with_a_tmp_that_is_read_only(self):
        self.quickstart(self.package / PROGRAM, 'mount -t tmpfs -o ro tmpfs /tmp')

    def test_it_runs_in_clean_roots_and_an_old_one_says_why_not(self):
        for root in ROOTS:
            with self.subTest(root.name):
                self.assertFalse([tool for tool in ('cc', 'ld', 'python3', 'cmake') if (root / 'usr/bin' / tool).exists()])
                home = root / 'home/trial'
                shutil.rmtree(home, ignore_errors=True)
                shutil.copytree(self.package, home / 'hgtrain', symlinks=True)
                glibc = glibc_of(root)
                program = f'/home/trial/hgtrain/{PROGRAM}'
                mounts = f'mount --rbind /dev {root}/dev && mount -t proc proc {root}/proc'
                if glibc >= MIN_GLIBC:
                    found = f'loss {self.quickstart(program, mounts, root, "/home/trial"):.4f}'
                else:
                    found = self.run_in_namespaces(mounts, root, '/', program, 'version').stderr
                    self.assertRegex(found, r"version `GLIBC\S* not found")
                print(f'{root.name}, glibc {glibc[0]}.{glibc[1]}: {found.strip()}')
                shutil.rmtree(home)

    def test_the_debian_package_in_clean_roots(self):
        layers = self.folder / 'layers'
        layers.mkdir()
        for root in (root for root in ROOTS if glibc_of(root) >= MIN_GLIBC):
            mounts = (f'mount -t tmpfs tmpfs {layers} && cd {layers} && mkdir new work root && '
                      f'mount -t overlay overlay -o lowerdir={root},upperdir=new,workdir=work root && cp {DEB} root/hgtrain.deb && '
                      'mount --rbind /dev root/dev && mount -t proc proc root/proc')
            for script, program in (INSTALLED, 'hgtrain'), (UNPACKED, '/home/trial/hgtrain/usr/bin/hgtrain'):
                with self.subTest(root.name, program=program):
                    loss = self.loss_of(self.run_in_namespaces(mounts, layers / 'root', '/', 'sh', '-c', script, 'sh', program, QUICKSTART))
                    print(f'{root.name}, {program}: loss {loss:.4f}')

    def buildah(self, *words, ok=True):
        done = subprocess.run(['buildah', '--storage-driver', 'vfs', '--root', self.folder / 'images', '--runroot', self.folder / 'state', *words],
                              text=True, capture_output=True, env={**os.environ, 'BUILDAH_ISOLATION': 'chroot'})
        if ok:
            self.assertEqual(done.returncode, 0, done.stdout[-4000:] + done.stderr[-4000:])
        return done

    @unittest.skipUnless(shutil.which('buildah'), 'buildah is not installed')
    def test_images_of_the_dockerfile_train(self):
        """Needs the network, from which the image's distribution installs packages."""
        for root in (root for root in ROOTS if glibc_of(root) >= MIN_GLIBC):
            with self.subTest(root.name):
                base = self.buildah('from', 'scratch').stdout.strip()
                self.buildah('add', base, root, '/')
                self.buildah('commit', base, 'base')
                self.buildah('build', '--pull-never', '--build-arg', 'BASE=localhost/base', '-t', 'hgtrain', SOURCE)
                image = self.buildah('from', '--pull-never', 'localhost/hgtrain').stdout.strip()
                shutil.rmtree(self.work)
                self.work.mkdir()
                loss = self.loss_of(self.buildah('run', '-v', f'{self.work}:/work', image, 'sh', '-c', QUICKSTART, 'sh', 'hgtrain', ok=False))
                print(f'image of {root.name}: loss {loss:.4f}')
                self.buildah('rm', '--all')
                self.buildah('rmi', '--all', '--force')


if __name__ == '__main__':
    if os.getuid() != 0 or not ARCHIVE:
        print('skipped: no archive in dist/ (scripts/package), or not root')
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
