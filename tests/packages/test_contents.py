"""The Debian packages from outside: files, fields, dependencies, units, manual pages. Installs nothing."""

import pathlib
import re
import shutil
import subprocess
import unittest

import pack

# Files that each package must have, beside its documentation.
CONTENTS = {
    "muster-master": ["etc/muster/master.yaml", "usr/bin/muster-master", "usr/lib/systemd/system/muster-master.service",
                      "usr/lib/sysusers.d/muster-master.conf", "usr/lib/tmpfiles.d/muster-master.conf",
                      "usr/share/man/man8/muster-master.8.gz"],
    "muster-agent": ["etc/default/muster-agent", "usr/bin/muster-agent", "usr/bin/muster-supervisor",
                     "usr/libexec/muster/muster", "usr/lib/systemd/system/muster-agent.service",
                     "usr/lib/systemd/system/muster-tasks.service",
                     "usr/lib/sysusers.d/muster-agent.conf", "usr/lib/tmpfiles.d/muster-agent.conf",
                     "usr/share/man/man8/muster-agent.8.gz", "usr/share/muster/python/muster/__init__.py"],
    "muster-trainer": ["usr/bin/muster-trainer", "usr/share/man/man1/muster-trainer.1.gz"],
    "muster-client": ["usr/bin/muster", "usr/share/bash-completion/completions/muster",
                      "usr/share/fish/vendor_completions.d/muster.fish", "usr/share/zsh/site-functions/_muster",
                      "usr/share/man/man1/muster.1.gz", "usr/share/man/man1/muster-experiment.1.gz"],
    "python3-muster": ["usr/lib/python3/dist-packages/muster/__init__.py",
                       "usr/lib/python3/dist-packages/muster/torch/exact.py",
                       "usr/lib/python3/dist-packages/muster-0.1.0.dist-info/METADATA"],
}
CONFFILES = {"muster-master": ["/etc/muster/master.yaml"], "muster-agent": ["/etc/default/muster-agent"]}
EXPOSURE_MAX = 2.0  # systemd-analyze security of the master


def run(*command, **options):
    answer = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    return answer.returncode, answer.stdout + answer.stderr


def output_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def owner_of(library):
    """The installed package with this library."""
    paths = re.findall(rf"^\t{re.escape(library)} \(.*x86-64.*\) => (\S+)$", output_of("ldconfig", "-p"), re.M)
    found = output_of("dpkg-query", "-S", "*" + paths[0].removeprefix("/usr").removeprefix("/"))
    return re.match(r"[^:,]+", found).group()


@unittest.skipUnless(shutil.which("dpkg-deb"), "dpkg is not installed")
class Contents(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pack.build("packages", "deb")
        cls.files = {}
        for path in sorted(cls.folder.glob("*.deb")):
            name = output_of("dpkg-deb", "-f", path, "Package").strip()
            cls.files[name] = path
            run("dpkg-deb", "-R", path, name)

    def tree(self, package):
        root = pathlib.Path(package)
        return sorted(str(path.relative_to(root)) for path in root.rglob("*")
                      if path.is_file() and path.parts[1] != "DEBIAN")

    def programs(self, package):
        return sorted(pathlib.Path(package).glob("usr/bin/*"))

    def field(self, package, name):
        return output_of("dpkg-deb", "-f", self.files[package], name).strip()

    def test_every_package_has_its_files(self):
        self.assertEqual(set(CONTENTS), set(self.files) - {"muster-trainer-cuda"})
        for package, expected in CONTENTS.items():
            files = self.tree(package)
            self.assertEqual([path for path in expected if path not in files], [], package)
            self.assertIn(f"usr/share/doc/{package}/copyright", files)
            if package not in CONFFILES:
                self.assertEqual([path for path in files if not path.startswith("usr/")], [], package)

    def test_no_file_is_in_two_packages(self):
        seen = {}
        for package in self.files:
            for path in self.tree(package):
                self.assertNotIn(path, seen, f"{package} and {seen.get(path)}")
                seen[path] = package

    def test_owner_and_modes(self):
        for package, path in self.files.items():
            for line in output_of("dpkg-deb", "-c", path).splitlines():
                mode, owner, _, _, _, name = line.split(None, 5)
                self.assertEqual(owner, "root/root", line)
                program = "/bin/" in name or "/libexec/" in name
                expected = "drwxr-xr-x" if mode[0] == "d" else "-rwxr-xr-x" if program else "-rw-r--r--"
                self.assertEqual(mode, expected, f"{package}: {name}")
            control = pathlib.Path(package, "DEBIAN")
            for script in control.glob("p[or]*"):
                self.assertEqual(script.stat().st_mode & 0o777, 0o755, str(script))
                self.assertEqual(run("sh", "-n", script)[0], 0, str(script))

    def test_settings_are_conffiles(self):
        for package in self.files:
            listed = pathlib.Path(package, "DEBIAN/conffiles")
            lines = listed.read_text().split() if listed.exists() else []
            self.assertEqual(lines, CONFFILES.get(package, []), package)
            self.assertEqual(sorted(lines), ["/" + f for f in self.tree(package) if f.startswith("etc/")])

    def test_dependencies_cover_every_library(self):
        later = pathlib.Path(pack.BUILD, "packaging/loaded_later").read_text().split()
        self.assertEqual(len(later), 4, "libcurl, libarchive, GnuTLS and libssh2")
        for package in CONTENTS:
            depends = re.split(r"[,|]", self.field(package, "Depends"))
            names = {re.match(r"\s*(\S+)", one).group(1) for one in depends}
            for program in self.programs(package):
                needed = re.findall(r"NEEDED\s+(\S+)", output_of("objdump", "-p", program))
                self.assertTrue(needed, program)
                libraries = [*needed, *(pathlib.Path(path).name for path in later)]
                if package != "muster-client":  # "muster cluster" loads libssh2
                    libraries = [name for name in libraries if not name.startswith("libssh2")]
                if program.name == "muster-supervisor":  # in the package of muster-agent
                    libraries = needed
                missing = {owner_of(library) for library in libraries} - names
                self.assertEqual(missing, set(), f"{program}: not in Depends")

    def test_fields(self):
        for package in self.files:
            self.assertEqual(self.field(package, "Version"), "0.1.0")
            own = output_of("dpkg", "--print-architecture").strip()
            self.assertEqual(self.field(package, "Architecture"), "all" if package == "python3-muster" else own)
            self.assertRegex(self.field(package, "Description"), r"\A[^\n]{20,80}\n \S")

    def test_programs_are_stripped_and_run(self):
        for package in CONTENTS:
            for program in self.programs(package):
                self.assertNotIn(".debug_info", output_of("objdump", "-h", program))
                self.assertNotRegex(output_of("objdump", "-p", program), "R(UN)?PATH")
                if program.name != "muster-supervisor":
                    self.assertEqual(run(program, "--version")[0], 0)

    def test_manual_pages_are_valid(self):
        pages = [page for package in self.files for page in pathlib.Path(package).rglob("usr/share/man/*/*")]
        self.assertGreater(len(pages), 20)
        if not shutil.which("man"):
            self.skipTest("man is not installed")
        for page in pages:
            self.assertEqual(page.suffix, ".gz", page)
            answer = subprocess.run(["man", "--warnings", "-Tutf8", "-l", page], capture_output=True, text=True,
                                    check=True, env={"PATH": "/usr/bin:/bin", "MANWIDTH": "200", "LANG": "C.UTF-8"})
            self.assertEqual(answer.stderr, "", page)
            self.assertGreater(len(answer.stdout), 500, page)

    def test_completion_is_valid(self):
        completion = "muster-client/usr/share/bash-completion/completions/muster"
        self.assertEqual(run("bash", "-n", completion), (0, ""))
        self.assertIn("muster", output_of("bash", "-c", f"source {completion}; complete -p muster"))


@unittest.skipUnless(shutil.which("systemd-analyze"), "systemd is not installed")
class Units(unittest.TestCase):
    units = pack.SOURCE / "packaging/systemd"

    def test_units_are_valid(self):
        for daemon in ("master", "agent"):
            text = (self.units / f"muster-{daemon}.service").read_text()
            unit = pathlib.Path(f"muster-{daemon}.service").resolve()
            unit.write_text(text.replace("/usr/bin/", f"{pack.BUILD}/bin/"))
            code, output = run("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", unit)
            self.assertEqual((code, output), (0, ""))

    def test_master_is_confined(self):
        _, output = run("systemd-analyze", "security", "--offline=yes", self.units / "muster-master.service")
        found = re.search(r"exposure level for muster-master.service: ([0-9.]+)", output)
        self.assertTrue(found, output)
        self.assertLessEqual(float(found.group(1)), EXPOSURE_MAX)
        self.assertIn(f"`systemd-analyze security muster-master`: {found.group(1)}",
                      (pack.SOURCE / "docs/installation.md").read_text())

    def test_accounts_and_folders_are_valid(self):
        for daemon in ("master", "agent"):
            for tool, kind in (("systemd-sysusers", "sysusers"), ("systemd-tmpfiles", "tmpfiles")):
                root = pathlib.Path(f"root-{daemon}").resolve()
                (root / "etc").mkdir(parents=True, exist_ok=True)
                for name in ("passwd", "group"):
                    (root / "etc" / name).touch()
                create = ["--create"] if kind == "tmpfiles" else []
                code, output = run(tool, *create, f"--root={root}", self.units / f"muster-{daemon}.{kind}")
                if "not permitted" in output:
                    self.skipTest("only root can change owners")
                self.assertEqual(code, 0, output)
            self.assertIn("muster-checkpoints", (root / "etc/group").read_text())
            self.assertEqual((root / "var/lib/muster-checkpoints").stat().st_mode & 0o7777, 0o2770)


if __name__ == "__main__":
    unittest.main()
