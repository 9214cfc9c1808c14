"""The tarball: complete but for glibc, no newer glibc than promised, movable, and its services."""

import os
import pathlib
import re
import shutil
import subprocess
import unittest

import pack
from machine import Machine, main

GLIBC = (2, 36)
GLIBC_LIBRARIES = re.compile(r"(ld-linux-x86-64|libc|libm|libmvec|libdl|libpthread|librt|libresolv)\.so\.\d+$")
NVIDIA_LIBRARIES = re.compile(r"lib(cu|nccl|nv)\S*\.so\.\d+$")  # of the toolkit of the machine; muster-trainer-cuda needs them
# A root with the tarball's programs and the libraries of glibc, and nothing else.
BARE = r"""
set -eu
root=$1; shift
mount -t proc proc "$root/proc"
for device in null zero random urandom; do
    touch "$root/dev/$device"
    mount --bind /dev/$device "$root/dev/$device"
done
mount -t tmpfs tmpfs "$root/dev/shm"
exec chroot "$root" "$@"
"""


def output_of(*command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, **options).stdout


class Tarball(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not shutil.which("patchelf"):
            raise unittest.SkipTest("patchelf is not installed")
        cls.folder = pack.build("packages", "tarball")
        cls.unpack, cls.services = pack.commands_of("The tarball")
        output_of("bash", "-euc", cls.unpack + "command -v muster-trainer\n", cwd=cls.folder)
        cls.top, = (path for path in cls.folder.iterdir() if path.is_dir())
        cls.top = cls.top.rename(cls.folder / "moved here")

    def objects(self):
        return [*self.top.glob("bin/*"), *self.top.glob("lib/muster/*")]

    def test_commands_of_the_page(self):
        self.assertRegex(output_of("bash", "-euc", "mkdir again; cd again; cp ../*.tar.xz .;" + self.unpack,
                                   cwd=self.folder), r"muster-trainer \d")

    def test_no_newer_glibc(self):
        found = set()
        for path in self.objects():
            for version in re.findall(r"\bGLIBC_(\d+)\.(\d+)", output_of("objdump", "-T", path)):
                found.add(tuple(map(int, version)))
        self.assertLessEqual(max(found), GLIBC)

    @staticmethod
    def comes_from_outside(program, name):
        return GLIBC_LIBRARIES.match(name) or (program.name == "muster-trainer-cuda" and NVIDIA_LIBRARIES.match(name))

    def test_all_libraries_are_inside(self):
        loaded = {pathlib.Path(path).name
                  for path in (pack.BUILD / "packaging/loaded_later").read_text().split()}
        inside = {path.name for path in self.top.glob("lib/muster/*")}
        self.assertLess(loaded, inside)
        for program in self.top.glob("bin/*"):
            toolkit = r"(:/\S+)?" if program.name == "muster-trainer-cuda" else ""  # whose libraries are not inside
            self.assertRegex(output_of("objdump", "-p", program), r"\bRPATH +\$ORIGIN/\.\./lib/muster" + toolkit + r"\n")
            for line in output_of("ldd", program).splitlines():
                name = line.split()[0].rpartition("/")[2]
                if not name.startswith("linux-vdso") and not self.comes_from_outside(program, name):
                    self.assertIn(f"=> {program.parent}/../lib/muster/{name} ", line)
        for path in self.objects():
            for name in re.findall(r"NEEDED +(\S+)", output_of("objdump", "-p", path)):
                self.assertTrue(name in inside or self.comes_from_outside(path, name), f"{path} needs {name}")

    def test_every_library_has_its_licence(self):
        licences = list(self.top.glob("share/doc/muster/*.copyright"))
        owners = set()
        for path in self.top.glob("lib/muster/*"):
            owners.add(re.match(r"[^:,]+", output_of("dpkg-query", "-S", f"*/x86_64-linux-gnu/{path.name}")).group())
        self.assertEqual({path.stem for path in licences}, owners)
        self.assertTrue((self.top / "share/doc/muster/LICENSE").exists())

    def test_runs_without_any_other_library(self):
        root = self.folder / "bare"
        for name in ("proc", "dev/shm", "tmp", "lib64", "data", "store"):
            (root / name).mkdir(parents=True)
        shutil.copytree(self.top, root / "muster")
        libraries = pathlib.Path(os.path.realpath("/lib64/ld-linux-x86-64.so.2")).parent
        (root / libraries.relative_to("/")).mkdir(parents=True, exist_ok=True)
        for path in libraries.iterdir():
            if GLIBC_LIBRARIES.match(path.name):
                shutil.copy(path, root / libraries.relative_to("/"))
        shutil.copy("/lib64/ld-linux-x86-64.so.2", root / "lib64")
        (root / "lib").exists() or (root / "lib").symlink_to("usr/lib")
        (root / "data/spirals.csv").write_text(output_of("python3", pack.SOURCE / "examples/spirals.py"))
        (root / "data/training.yaml").write_text(pack.TRAINING)

        def run_bare(*command):
            return subprocess.run(["unshare", "--map-root-user", "--mount", "--pid", "--fork", "bash", "-c", BARE,
                                   "bare", root, *command], capture_output=True, text=True, check=False, timeout=120)

        probe = run_bare("/muster/bin/muster", "--version")
        if "unshare" in probe.stderr or "mount:" in probe.stderr:
            self.skipTest(f"no namespaces: {probe.stderr}")
        for program in ("bin/muster", "bin/muster-master", "bin/muster-agent", "bin/muster-trainer",
                        "libexec/muster/muster"):
            answer = run_bare(f"/muster/{program}", "--version")
            self.assertEqual(answer.returncode, 0, answer.stderr)
        answer = run_bare("/muster/bin/muster-trainer", "run", "/data/training.yaml", "--folder", "/data",
                          "--slots", "2", "--checkpoint-dir", "/store")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        # libcurl is loaded and calls: nobody listens there.
        answer = run_bare("/muster/bin/muster", "--master", "http://127.0.0.1:9", "agent", "list")
        self.assertIn("cannot reach http://127.0.0.1:9", answer.stderr)
        # libarchive is loaded and packs; then the call fails.
        answer = run_bare("/muster/bin/muster", "--master", "http://127.0.0.1:9", "--token", "x",
                          "experiment", "create", "/data/training.yaml", "/data")
        self.assertIn("cannot reach http://127.0.0.1:9", answer.stderr)


class TarballServices(unittest.TestCase):
    """The tarball's services, by the commands of the page, on a machine without the packages."""

    @classmethod
    def setUpClass(cls):
        if not shutil.which("patchelf"):
            raise unittest.SkipTest("patchelf is not installed")
        cls.shown = pathlib.Path("packages").resolve()  # that Tarball has made
        if not list(cls.shown.glob("*.tar.xz")):
            pack.build(cls.shown, "tarball")
        cls.machine = cls.enterClassContext(Machine(cls.shown))

    def test_services(self):
        run = self.machine.run
        run("rm -rf /etc/muster /var/lib/muster*; mkdir -p /opt; cd /opt;"
            "tar -xf /mnt/muster-*.tar.xz; mv muster-* muster")
        run(pack.commands_of("The tarball")[1])
        run("systemctl enable --now muster-master")
        for line in pack.commands_of("A first cluster on one machine")[0].splitlines()[2:]:
            run(line)
        self.assertIn("/opt/muster/bin/muster-agent", run("systemctl status --no-pager muster-agent"))
        self.assertEqual(run("systemctl is-active muster-master muster-agent"), "active\nactive\n")
        run("export PATH=/opt/muster/bin:$PATH; muster login admin --password-file /var/lib/muster/initial-password;"
            "muster command run -- echo from a task | grep 'from a task'")


if __name__ == "__main__":
    main()
