# source: CSC, docs.csc.fi/data/moving
# does: copy files to the cluster and back with `scp`, `sftp` and `rsync`
# at: laptop
# says: data: OK
# says: tree/a
# says: tree/b
head -c 3000000 /dev/urandom > data
sha256sum data > sum
scp -q data cluster:copied.$$
mkdir tree; touch tree/a tree/b
rsync -a tree/ cluster:tree.$$/
rm -r data tree
printf 'get copied.%s data\n' $$ | sftp -q -b - cluster > /dev/null
sha256sum --check sum
rsync -a cluster:tree.$$/ tree/
ls tree/*
ssh cluster rm -r copied.$$ tree.$$
