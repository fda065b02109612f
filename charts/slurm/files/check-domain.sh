# Checks the value clusterDomain: jobs look up names of Slurm nodes in this domain, and a chart cannot ask the cluster for it. The
# kubelet writes the domain into the first search domain of each resolv.conf. $1: clusterDomain; $2: the namespace.
read -r _ first _ < <(grep '^search ' /etc/resolv.conf) || exit 0
case $first in
  "$2.svc.$1") ;;
  "$2".svc.*)
    echo "clusterDomain: $1, but the domain of this Kubernetes cluster is ${first#"$2".svc.}: no name of a Slurm node would resolve. Set clusterDomain: ${first#"$2".svc.}"
    exit 3
    ;;
esac
