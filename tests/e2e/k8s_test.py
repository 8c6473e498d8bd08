"""Submitted Jobs of Kubernetes, whose pods are containers as the Job describes them: on the two hosts of hosts.py, each process in
namespaces of its own, with the Secret and the claim mounted where the Job says. What kubectl gets is kept by a script of this name."""
import json
import os
import pathlib
import re
import signal
import subprocess
import threading
import time

import hosts
from hosts import MARK, PROGRAM, HostsCase, command_lines

# A container's root: this machine's folders, except for those that belong to the pod.
CONTAINER = r"""set -e
root=$1 names=$2; shift 2
mount -t tmpfs tmpfs $root
for x in /*; do
  if [ -L $x ]; then cp -P $x $root$x
  elif [ -d $x ]; then mkdir $root$x; case $x in /run|/tmp|/work|/root|/proc) ;; *) mount --rbind $x $root$x;; esac; fi
done
mkdir -p $root/work $root/program $root/tmp
mount -t proc proc $root/proc
mount --bind %s $root/program
mount --bind $names $root/etc/hosts
while [ $1 != -- ]; do mkdir -p $root$2; mount --bind $1 $root$2; shift 2; done
shift
exec chroot $root env -C "$@"
"""


def objects_of(text):
    return {item['kind']: item for item in json.loads(text)['items']}


class Cluster:
    """Runs the pods of one Job, and again those that fail as long as its rules say so."""

    def __init__(self, case, text, claim):
        self.case, self.claim = case, claim
        self.secret, self.service, self.job = (objects_of(text)[kind] for kind in ('Secret', 'Service', 'Job'))
        self.spec = self.job['spec']
        self.pod = self.spec['template']['spec']
        name = self.job['metadata']['name']
        self.folder = case.work / name
        self.folder.mkdir()
        # Kubernetes' own rules for the names of pods.
        case.assertEqual(self.pod['subdomain'], self.service['metadata']['name'])
        case.assertEqual(self.service['spec']['selector'], {'job-name': name})
        (self.folder / 'names').write_text('127.0.0.1 localhost\n' + ''.join(
            f'{case.hosts.net}.{i + 1} {name}-{i}.{self.pod["subdomain"]}\n' for i in range(self.spec['completions'])))
        self.shared = {volume['name']: self.make(volume) for volume in self.pod['volumes'] if 'emptyDir' not in volume}
        self.codes, self.output, self.is_deleted = [], '', False
        self.threads = [threading.Thread(target=self.keep, args=(i,)) for i in range(self.spec['completions'])]
        for thread in self.threads:
            thread.start()

    def make(self, volume):
        if 'persistentVolumeClaim' in volume:
            self.case.assertEqual(volume['persistentVolumeClaim'], {'claimName': 'claim'})
            return self.claim
        folder = self.folder / volume['name']
        folder.mkdir()
        if 'secret' in volume:
            self.case.assertEqual(volume['secret']['secretName'], self.secret['metadata']['name'])
            for key, value in self.secret['stringData'].items():
                path = folder / key
                path.write_text(value)
                path.chmod(volume['secret']['defaultMode'])
        return folder

    def own(self, name, index):
        folder = self.folder / f'{name}_{index}'
        folder.mkdir(exist_ok=True)
        return folder

    def start(self, index):
        container, = self.pod['containers']
        mounts = []
        for mount in container['volumeMounts']:
            name = mount['name']
            mounts += [self.shared.get(name) or self.own(name, index), mount['mountPath']]
        root = self.folder / f'root_{index}'
        root.mkdir(exist_ok=True)
        words = [re.sub(r'\$\((\w+)\)|\$\$', lambda m: '$' if m[0] == '$$' else 'EXPANDED', word) for word in container['command'] + container['args']]
        host = self.case.hosts.first_process('ab'[index])
        name = f'{self.job["metadata"]["name"]}-{index}'
        return subprocess.Popen(
            ['nsenter', '-t', str(host), '-n', 'unshare', '-m', '-u', '-p', '-i', '--fork', '--kill-child', 'sh', '-c', f'hostname {name}\n' + CONTAINER % PROGRAM.parent,
             'sh', root, self.folder / 'names', *mounts, '--', container['workingDir'], f'PATH=/program:{os.environ["PATH"]}', f'{MARK}=1',
             f'JOB_COMPLETION_INDEX={index}', *words], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd='/')

    def action(self, code):
        for rule in self.spec['podFailurePolicy']['rules']:
            if code in rule.get('onExitCodes', {}).get('values', []):
                return rule['action']
        return 'Count'

    def keep(self, index):
        while not self.is_deleted:
            process = self.start(index)
            out, _ = process.communicate(timeout=300)
            self.output += out
            self.codes.append(process.returncode)
            if self.action(process.returncode) != 'Ignore':
                return

    def evict(self, index):
        """As the kubelet does: SIGTERM to the first process of the container."""
        is_first = lambda pid: re.search(r'^NSpid:.*\t1$', pathlib.Path(f'/proc/{pid}/status').read_text(), re.M)
        pid = next(pid for pid, line, environment in command_lines()
                   if line.startswith(b'hgtrain\0') and MARK.encode() in environment and f'JOB_COMPLETION_INDEX={index}'.encode() in environment
                   and is_first(pid))
        os.kill(pid, signal.SIGTERM)

    def join(self):
        for thread in self.threads:
            thread.join(300)


class K8sTest(HostsCase):
    def submit(self, folder, *args, exit_code=0, kubectl='cat > submitted; echo job created', nodes=2):
        programs = folder / 'bin'
        programs.mkdir(exist_ok=True)
        (programs / 'kubectl').write_text(f'#!/bin/sh\n[ "$*" = "create -f -" ] || exit 9\n{kubectl}\n')
        (programs / 'kubectl').chmod(0o755)
        if not kubectl:
            (programs / 'kubectl').unlink()
        path = f'{programs}:{os.environ["PATH"]}' if kubectl else str(programs)
        done = subprocess.run([PROGRAM, 'submit', 'k8s', 'config.json', '--nodes', str(nodes), '--num_workers', '2', '--image', 'hgtrain',
                               '--claim', 'claim', *args], text=True, capture_output=True, cwd=folder,
                              env={'PATH': path, **{k: v for k, v in os.environ.items() if k != 'PATH'}})
        self.assertEqual(done.returncode, exit_code, done)
        return done

    def test_the_pods_train_as_workers_of_one_machine_do(self):
        folder = self.prepare('trained', 3)
        hosts.sh(PROGRAM, '--config', 'config.json', '--device', 'cpu', '--num_workers', '4', '--run_dir', 'alone', cwd=folder)
        done = self.submit(folder, '--run_dir', 'of $(HOSTNAME) $$')
        self.assertIn('job created', done.stdout)
        text = (folder / 'submitted').read_text()
        name = objects_of(text)['Job']['metadata']['name']
        self.assertIn(f'kubectl logs -f --tail=-1 -l job-name={name},batch.kubernetes.io/job-completion-index=0\n', done.stderr)
        self.assertIn(f'kubectl patch job {name} -p ' + """'{"spec":{"suspend":true}}'""", done.stderr)
        self.assertIn(f'kubectl delete job,service,secret -l hgtrain-job={name}\n', done.stderr)
        cluster = Cluster(self, text, folder)
        cluster.join()
        self.assertEqual(cluster.codes, [0, 0], cluster.output)
        self.assertEqual(self.losses(folder, 'of $(HOSTNAME) $$'), self.losses(folder, 'alone'))

    def test_one_pod_needs_no_other(self):
        folder = self.prepare('alone', 3)
        self.submit(folder, '--run_dir', 'run', nodes=1)
        cluster = Cluster(self, (folder / 'submitted').read_text(), folder)
        cluster.join()
        self.assertEqual(cluster.codes, [0], cluster.output)

    def test_after_an_eviction_the_job_resumes(self):
        folder = self.prepare('evicted', 3)
        self.submit(folder, '--run_dir', 'run', '--training.train_iters', '1000000')
        cluster = Cluster(self, (folder / 'submitted').read_text(), folder)
        metrics = folder / 'run/metrics.jsonl'
        last_step = lambda: int(re.findall(r'"step": ?(\d+)', metrics.read_text())[-1]) if metrics.exists() and metrics.read_text() else 0

        def wait_for_step(step):
            deadline = time.monotonic() + 120
            while last_step() < step:
                self.assertLess(time.monotonic(), deadline, cluster.output)
                time.sleep(0.05)

        wait_for_step(6)
        cluster.evict(1)
        deadline = time.monotonic() + 120
        while len(cluster.codes) < 2:
            self.assertLess(time.monotonic(), deadline, cluster.output)
            time.sleep(0.05)
        self.assertEqual(cluster.codes, [75, 75], cluster.output)
        saved = sorted((folder / 'run/checkpoints').glob('step_*'))[-1]
        wait_for_step(int(saved.name.split('_')[1]) + 3)
        cluster.is_deleted = True
        cluster.evict(0)
        cluster.join()
        self.assertEqual(cluster.codes, [75] * 4, cluster.output)
        self.assertIn(f'resuming from step {int(saved.name.split("_")[1])}', cluster.output)

    def test_kubectl_that_refuses_or_is_missing(self):
        folder = self.prepare('refused', 3)
        done = self.submit(folder, '--namespace', 'team', kubectl='echo no such namespace >&2; exit 1', exit_code=2)
        self.assertIn('no such namespace', done.stderr)
        self.assertRegex(done.stderr, 'kubectl -n team delete job,service,secret -l hgtrain-job=config-')
        done = self.submit(folder, kubectl='', exit_code=3)
        left, = folder.glob('config-*.json')
        self.assertIn(f'this machine has no kubectl; the job is in {left.name}', done.stderr)
        self.assertEqual(left.stat().st_mode & 0o777, 0o600)
        self.assertEqual(set(objects_of(left.read_text())), {'Secret', 'Service', 'Job'})


if __name__ == '__main__':
    hosts.main()
