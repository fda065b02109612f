{{- /* Names of users and groups that the images have, or that packages of Debian may add: an entry of the values with such a name would
be hidden by them, or hide them. user1 is in the images, too, but values may give it keys and groups. */}}
{{- define "slurm.reservedNames" -}}
{{- `
adm audio avahi backup bin cdrom clock crontab daemon dialout dip disk dnsmasq docker fax floppy games gnats input irc k8s
kmem kvm list lp mail man mariadb messagebus munge mysql netdev news nobody nogroup operator plugdev polkitd proxy render
root sasl sgx shadow slurm slurmrestd src ssh sshd staff sudo sunkpy-closed sync sys systemd-journal systemd-network
systemd-resolve systemd-timesync tape tty users utmp uucp video voice www-data _apt _ssh sssd` | splitList "\n" | join " " -}}
{{- end }}

{{- /* People and groups as glibc reads them, {passwd, group}. Entries that contradict each other are refused by name. */}}
{{- define "slurm.people" -}}
{{- $reserved := splitList " " (trim (include "slurm.reservedNames" .)) }}
{{- $gids := dict }}{{/* gid → the group or person that has it */}}
{{- $members := dict }}
{{- range $group, $values := .Values.users.groups }}
{{- if or (has $group $reserved) (eq $group "user1") }}{{ fail (printf "users.groups.%s: the system has a group of that name" $group) }}{{ end }}
{{- $gid := int64 $values.gid | toString }}
{{- if eq $gid "65520" }}{{ fail (printf "users.groups.%s: gid %s belongs to user1, who is in the images of Slurm: choose another gid" $group $gid) }}{{ end }}
{{- with get $gids $gid }}{{ fail (printf "users.groups.%s: gid %s is already used by %s" $group $gid .) }}{{ end }}
{{- $_ := set $gids $gid $group }}
{{- $_ := set $members $group list }}
{{- end }}
{{- $uids := dict }}
{{- $passwd := list }}
{{- $group := list }}
{{- range $name, $person := .Values.users.people }}
{{- $path := printf "users.people.%s" $name }}
{{- $uid := int64 $person.uid | toString }}
{{- if has $name $reserved }}{{ fail (printf "%s: the system has a user of that name" $path) }}{{ end }}
{{- if ne (eq $name "user1") (eq $uid "65520") }}{{ fail (printf "%s: uid 65520 belongs to user1, who is in the images of Slurm. Only user1 may have it, and user1 may have no other" $path) }}{{ end }}
{{- with get $uids $uid }}{{ fail (printf "%s: uid %s is already used by %s" $path $uid .) }}{{ end }}
{{- $_ := set $uids $uid $name }}
{{- if hasKey $members $name }}{{ fail (printf "%s: users.groups has a group %s, too: rename one of the two" $path $name) }}{{ end }}
{{- $gid := $uid }}
{{- with $person.group }}
{{- if not (hasKey $.Values.users.groups .) }}{{ fail (printf "%s.group: users.groups has no %s" $path .) }}{{ end }}
{{- $gid = get (get $.Values.users.groups .) "gid" | int64 | toString }}
{{- else }}
{{- with get $gids $uid }}{{ fail (printf "%s: without a value `group`, %s gets a group whose gid is the uid, but gid %s is already used by %s: set %s.group" $path $name $uid . $path) }}{{ end }}
{{- if ne $name "user1" }}{{ $group = append $group (printf "%s:*:%s:" $name $uid) }}{{ end }}
{{- end }}
{{- range $person.groups }}
{{- if not (hasKey $members .) }}{{ fail (printf "%s.groups: users.groups has no %s" $path .) }}{{ end }}
{{- $_ := set $members . (append (get $members .) $name) }}
{{- end }}
{{- if ne $name "user1" }}
{{- $passwd = append $passwd (printf "%s:*:%s:%s:%s:/home/%s:%s" $name $uid $gid ($person.fullName | default "") $name ($person.shell | default "/bin/bash")) }}
{{- end }}
{{- end }}
{{- range $name, $values := .Values.users.groups }}
{{- $group = append $group (printf "%s:*:%d:%s" $name (int64 $values.gid) (join "," (get $members $name))) }}
{{- end }}
{{- /* A line for each entry, with its line end; empty if there are none. */}}
passwd: {{ append $passwd "" | join "\n" | toJson }}
group: {{ append $group "" | join "\n" | toJson }}
{{- end }}

{{- /* Whether anybody could log in by ssh; empty if not. */}}
{{- define "slurm.ssh" -}}
{{- if and .Values.login.enabled .Values.login.ssh.enabled }}
{{- if or .Values.users.sssd.enabled .Values.login.ssh.trustedUserCAKeys .Values.login.ssh.existingCASecret }}true{{ end }}
{{- range .Values.users.people }}{{ if .sshKeys }}true{{ end }}{{ end }}
{{- end }}
{{- end }}
{{- /* Whether people may also log in to the nodes of their jobs. */}}
{{- define "slurm.computeSsh" -}}{{ if .Values.compute.ssh.enabled }}{{ include "slurm.ssh" . }}{{ end }}{{- end }}
{{- /* Call with (dict "root" $ "compute" false). */}}
{{- define "slurm.sshdConfig" -}}
{{- tpl (.root.Files.Get "files/sshd_config.tpl") (dict "Values" .root.Values "Template" .root.Template "compute" .compute) }}
{{- end }}
{{- /* The files that sshd reads, by name: its configuration, the authorities for certificates, the revoked keys, and the principals of
people. A file without content is there, too: until sshd has read a new configuration, it reads the files of the one before.
Arguments as above. */}}
{{- define "slurm.sshdFiles" -}}
{{- $ssh := .root.Values.login.ssh }}
{{- $files := dict "sshd_config" (printf "%s\n" (include "slurm.sshdConfig" . | trim)) }}
{{- if not .compute }}
{{- $_ := set $files "sshd.pam" (.root.Files.Get "files/sshd.pam") }}
{{- $_ := set $files "second_factor" (printf "%s\n" (trim ($ssh.secondFactor | default "") | default "auth required pam_deny.so")) }}
{{- end }}
{{- /* A pod without the volume of a new Secret keeps its old configuration. An empty list would allow revoked keys there. */}}
{{- if not $ssh.existingCASecret }}
{{- $_ := set $files "trusted_user_ca_keys" (append ($ssh.trustedUserCAKeys | default list) "" | join "\n") }}
{{- $_ := set $files "revoked_keys" (append ($ssh.revokedKeys | default list) "" | join "\n") }}
{{- end }}
{{- $lines := list }}
{{- range $person, $names := $ssh.principals }}{{ range $names }}{{ $lines = append $lines (printf "%s %s\n" $person .) }}{{ end }}{{ end }}
{{- $_ := set $files "principals" (join "" $lines) }}
{{- toJson $files }}
{{- end }}
{{- /* Always there, so that a Secret with the default name replaces no pod. Optional also for a Secret that values name: only then
does the kubelet remove a file whose key is removed, and sshd lets nobody in. */}}
{{- define "slurm.sshCAVolume" -}}
{{- $secret := .Values.login.ssh.existingCASecret | default (printf "%s-ssh-ca" .Release.Name) }}
{{- $items := list (dict "key" "trusted_user_ca_keys" "path" "trusted_user_ca_keys") (dict "key" "revoked_keys" "path" "revoked_keys") }}
- {name: ssh-ca, secret: {secretName: {{ $secret | quote }}, optional: true, items: {{ toJson $items }}}}
{{- end }}
{{- define "slurm.computeHostSecret" -}}{{ .Values.keys.existingComputeSshHostSecret | default (printf "%s-compute-ssh-host-key" .Release.Name) }}{{- end }}
{{- define "slurm.sshHostSecret" -}}{{ .Values.keys.existingSshHostSecret | default (printf "%s-ssh-host-key" .Release.Name) }}{{- end }}

{{- /* The volumeMounts with people and groups, for each container in which Slurm looks them up. */}}
{{- define "slurm.peopleMounts" -}}
- {name: people, mountPath: /var/lib/extrausers, readOnly: true}
{{- end }}
{{- define "slurm.peopleVolumes" -}}
- {name: people, configMap: {name: {{ .Release.Name }}-people}}
{{- end }}

{{- /* sssd, for sites with a directory: beside slurmctld, slurmdbd, slurmrestd and slurmd, and in the login pods. Kubernetes starts it
before the other containers of its pod, and keeps it running. */}}
{{- define "slurm.sssdSecret" -}}
{{- $sssd := .Values.users.sssd }}
{{- if eq (empty $sssd.existingSecret) (empty $sssd.config) }}
{{- fail "users.sssd needs either existingSecret, a Secret with sssd.conf in it, or config, and not both" }}
{{- end }}
{{- $sssd.existingSecret | default (printf "%s-sssd" .Release.Name) }}
{{- end }}
{{- define "slurm.sssd" -}}
{{- if .Values.users.sssd.enabled }}
- name: sssd
  image: {{ .Values.images.sssd }}
  imagePullPolicy: {{ .Values.imagePullPolicy }}
  restartPolicy: Always
  # It wants to own what it reads and writes, and nothing more.
  securityContext:
    runAsNonRoot: false
    runAsUser: 0
    runAsGroup: 0
    {{- include "sunkpy.locked" . | nindent 4 }}
  startupProbe:
    exec: {command: [test, -S, /var/lib/sss/pipes/nss]}
    periodSeconds: 1
    failureThreshold: 600
  resources: {{- toYaml .Values.users.sssd.resources | nindent 4 }}
  volumeMounts:
    - {name: directory, mountPath: /var/lib/sss}
    - {name: sssd, mountPath: /site, readOnly: true}
    - {name: sssd-scratch, mountPath: /etc/sssd, subPath: etc}
    - {name: sssd-scratch, mountPath: /run, subPath: run}
    - {name: sssd-scratch, mountPath: /tmp, subPath: tmp}
    - {name: sssd-scratch, mountPath: /var/log, subPath: log}
{{- end }}
{{- end }}
{{- define "slurm.directoryMounts" -}}
{{- include "slurm.peopleMounts" . }}
{{- if .Values.users.sssd.enabled }}
- {name: directory, mountPath: /var/lib/sss/pipes, subPath: pipes, readOnly: true}
- {name: directory, mountPath: /var/lib/sss/mc, subPath: mc, readOnly: true}
{{- end }}
{{- end }}
{{- define "slurm.directoryVolumes" -}}
{{- include "slurm.peopleVolumes" . }}
{{- if .Values.users.sssd.enabled }}
- {name: directory, emptyDir: {sizeLimit: 1Gi}}
- {name: sssd, secret: {secretName: {{ include "slurm.sssdSecret" . | quote }}, defaultMode: 0400}}
- {name: sssd-scratch, emptyDir: {medium: Memory, sizeLimit: 64Mi}}
{{- end }}
{{- end }}
