ClusterName={{ include "slurm.keptClusterName" . }}
SlurmctldHost={{ .Release.Name }}-slurmctld-0({{ .Release.Name }}-slurmctld)
{{- if include "slurm.backupController" . }}
# The second takes control when the first is silent.
SlurmctldHost={{ .Release.Name }}-slurmctld-1({{ .Release.Name }}-slurmctld-1)
{{- end }}
SlurmUser=slurm
StateSaveLocation=/var/lib/slurm/state
{{- if include "slurm.backupController" . }}
SlurmctldPidFile=/run/slurmctld/slurmctld.pid
{{- else }}
# A link that start-slurmctld makes: while it is there, slurmctld has not ended in order.
SlurmctldPidFile=/var/lib/slurm/state/slurmctld.pid
{{- end }}
SlurmdSpoolDir=/var/spool/slurmd
# A Prolog knows by the age of this file that slurmd has executed itself again.
SlurmdPidFile=/run/slurmd.pid

# One key signs the messages of the daemons, sackd authenticates users, and slurmrestd sends JSON web tokens.
AuthType=auth/slurm
CredType=cred/slurm
# ttl: slurmctld launches a batch job with a credential from before its Prolog, which may wait long for pods (hooks).
AuthInfo=use_client_ids,ttl={{ add (int .Values.hooks.epilogTimeoutSeconds) (int .Values.hooks.prologTimeoutSeconds) 60 }}
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=/etc/slurm/jwt.key

# Nodes are pods: they come and go, fetch this file from slurmctld, and say themselves what they have.
# A node that was silent comes back by itself; one that an admin set DOWN stays DOWN until they resume it.
ReturnToService=1

SelectType=select/cons_tres
GresTypes={{ include "slurm.gresTypes" . }}
{{- if eq .Values.slurmConfig.cgroup "auto" }}
ProctrackType=proctrack/cgroup
JobAcctGatherType=jobacct_gather/cgroup
{{- else }}
ProctrackType=proctrack/linuxproc
JobAcctGatherType=jobacct_gather/{{ .Values.accounting.enabled | ternary "linux" "none" }}
{{- end }}
{{- if .Values.slurmConfig.privatePids }}
NamespaceType=namespace/linux
{{- else if include "slurm.privateTmp" . }}
# This name of the key is that of Slurm up to 25.05. Later releases understand it, too.
JobContainerType=job_container/tmpfs
{{- end }}
{{- if .Values.accounting.enabled }}

# Records of jobs. While slurmdbd is away, slurmctld keeps new records, and works with the last answers of slurmdbd.
AccountingStorageType=accounting_storage/slurmdbd
{{- $slurmdbd := include "slurm.slurmdbd" . | fromYaml }}
AccountingStorageHost={{ $slurmdbd.host }}
AccountingStoragePort={{ int $slurmdbd.port }}
{{- with .Values.accounting.enforce }}
AccountingStorageEnforce={{ join "," . }}
{{- end }}
{{- with .Values.accounting.tres }}
AccountingStorageTRES={{ join "," . }}
{{- end }}
{{- end }}

# Alloc: the Prolog runs on every node as soon as the job has it. Not Serial: one pod that takes its time to end would
# hold up every other job that starts or ends on its node.
{{- $flags := list "Alloc" }}
{{- if or (include "slurm.privateTmp" .) (include "slurm.computeSsh" .) }}
# Contain: each job has a step on each of its nodes, to which sessions by ssh and a /tmp of its own belong.
{{- $flags = append $flags "Contain" }}
{{- end }}
{{- if and .Values.login.ssh.x11 (eq .Values.slurmConfig.cgroup "auto") }}
# X11: for srun --x11, for which Slurm needs cgroups.
{{- $flags = append $flags "X11" }}
{{- end }}
PrologFlags={{ join "," $flags }}
# A Prolog may wait long for pods to leave; a batch job that has not begun after this time is missing.
BatchStartTimeout=60
Prolog=prolog.sh
Epilog=epilog.sh
{{- if or .Values.hooks.taskProlog .Values.hooks.taskEpilog }}
# task_hooks.sh is named here only so that slurmctld sends it to nodes. As a Prolog it does nothing.
Prolog=task_hooks.sh
{{- range $key, $text := dict "TaskProlog" .Values.hooks.taskProlog "TaskEpilog" .Values.hooks.taskEpilog }}
{{- if $text }}
{{- if hasKey $.Values.slurmConfig.conf $key }}{{ fail (printf "hooks.t%s: slurmConfig.conf.%s is set, too: leave out one of the two" (trimPrefix "T" $key) $key) }}{{ end }}
{{ $key }}=/run/slurm/conf/task_hooks.sh
{{- end }}
{{- end }}
{{- end }}
