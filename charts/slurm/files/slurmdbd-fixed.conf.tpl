AuthType=auth/slurm
AuthInfo=use_client_ids
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=/etc/slurm/jwt.key
SlurmUser=slurm
DbdHost=localhost
DbdPort=6819
PidFile=/run/slurmdbd/slurmdbd.pid

StorageType=accounting_storage/mysql
{{- $database := include "slurm.database" . | fromYaml }}
StorageHost={{ $database.host }}
StoragePort={{ int $database.port }}
StorageLoc={{ $database.name }}
StorageUser={{ $database.user }}
