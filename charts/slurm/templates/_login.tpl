{{- /* The pod in which people log in: metadata and spec of its template. A shared pod also has the container "login",
for people who enter with kubectl. With .person the pod is for that person alone, who comes by ssh. Call with (dict "root" $ "part" …
"values" {resources, podAnnotations, nodeSelector …, image} ["person" … "label" name of the StatefulSet]). */}}
{{- define "slurm.loginPod" -}}
{{- $config := printf "%s-login" .root.Release.Name }}
{{- $ssh := include "slurm.ssh" .root }}
metadata:
  labels:
    {{- include "slurm.selector" . | nindent 4 }}
    {{- with .label }}
    sunkpy.dev/login: {{ . }}
    {{- end }}
  annotations:
    kubectl.kubernetes.io/default-container: {{ if .person }}sshd{{ else }}login{{ end }}
    {{- with .values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  {{- /* Not of cordoned nodes: kubectl drain evicts a login pod once, and it would come back to its node. */}}
  {{- $tolerations := concat (include "slurm.toleratesClosed" dict | fromJsonArray) (.values.tolerations | default list) }}
  {{- include "sunkpy.placement" (dict "root" .root "values" (merge (dict "tolerations" $tolerations) .values)) | nindent 2 }}
  {{- include "slurm.dns" .root | nindent 2 }}
  serviceAccountName: {{ .root.Release.Name }}-slurm
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 5
  securityContext:
    seccompProfile: {type: RuntimeDefault}
  {{- if or (not .person) .root.Values.users.sssd.enabled }}
  initContainers:
    {{- include "slurm.sssd" .root | nindent 4 }}
    {{- if not .person }}
    # This container runs as root, with the capabilities to give files away. It ends before anybody can enter the pod.
    - name: make-homes
      image: {{ .root.Values.images.login }}
      imagePullPolicy: {{ .root.Values.imagePullPolicy }}
      args: [/usr/local/bin/make-homes, "{{ int .root.Values.login.runAsUser }}"]
      securityContext:
        runAsUser: 0
        runAsGroup: 0
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL], add: [CHOWN, DAC_OVERRIDE, FOWNER]}
      resources: {requests: {cpu: 10m, memory: 16Mi}}
      volumeMounts:
        - {name: home, mountPath: /home}
        {{- include "slurm.directoryMounts" .root | nindent 8 }}
    {{- end }}
  {{- end }}
  containers:
    {{- if not .person }}
    # People are in this container. It has no root, no key, and no program by which they could become another user.
    - name: login
      image: {{ .values.image | default .root.Values.images.login }}
      imagePullPolicy: {{ .root.Values.imagePullPolicy }}
      securityContext:
        runAsNonRoot: true
        runAsUser: {{ int .root.Values.login.runAsUser }}
        runAsGroup: {{ int .root.Values.login.runAsGroup }}
        {{- include "sunkpy.locked" .root | nindent 8 }}
      startupProbe:
        exec: {command: [test, -S, /run/slurm/sack.socket]}
        periodSeconds: 1
        failureThreshold: 600
      readinessProbe:
        exec: {command: [test, -S, /run/slurm/sack.socket]}
        periodSeconds: 10
        timeoutSeconds: 5
      resources: {{- toYaml .values.resources | nindent 8 }}
      volumeMounts:
        - {name: home, mountPath: /home}
        - {name: slurm, mountPath: /run/slurm, readOnly: true}
        - {name: tmp, mountPath: /tmp, subPath: login}
        - {name: words, mountPath: /etc/sunkpy/words, readOnly: true}
        {{- include "slurm.sharedMounts" .root | nindent 8 }}
        {{- include "slurm.directoryMounts" .root | nindent 8 }}
    {{- end }}
    {{- if $ssh }}
    # sshd. It runs as root only to become the people who log in, without root's other capabilities. It reads its own host key, and no
    # key of Slurm. It reaches homes and the socket of sackd as the person who logs in.
    - name: sshd
      image: {{ .values.image | default .root.Values.images.login }}
      imagePullPolicy: {{ .root.Values.imagePullPolicy }}
      args: [/usr/local/bin/start-sshd]
      {{- $most := .root.Values.login.perPerson | default dict }}
      {{- if or .root.Values.login.ssh.endSessions .person $most.processes $most.memoryMiB }}
      env:
        {{- if $most.processes }}
        - {name: SUNKPY_PERSON_PROCESSES, value: {{ int $most.processes | quote }}}
        {{- end }}
        {{- if and $most.memoryMiB (not .person) }}
        - {name: SUNKPY_PERSON_MEMORY_MIB, value: {{ int $most.memoryMiB | quote }}}
        {{- end }}
        {{- if .root.Values.login.ssh.endSessions }}
        - {name: SUNKPY_END_SESSIONS, value: "1"}
        {{- if .root.Values.users.sssd.enabled }}
        - {name: SUNKPY_SSSD, value: "1"}
        {{- end }}
        {{- end }}
        {{- if .person }}
        - {name: SUNKPY_PERSON, value: {{ .person | quote }}}
        - {name: SUNKPY_IDLE_S, value: {{ mul 60 (int .values.idleMinutes) | quote }}}
        {{- end }}
      {{- end }}
      securityContext:
        runAsUser: 0
        runAsGroup: 0
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL], add: [AUDIT_WRITE, CHOWN, SETGID, SETUID, SYS_CHROOT]}
      ports: [{name: ssh, containerPort: 2222}]
      # sshd would log each connection of a probe that sends nothing.
      startupProbe:
        exec: {command: &listens [test, -S, /run/slurm/sack.socket, -a, -s, /run/sshd.pid]}
        periodSeconds: 1
        failureThreshold: 600
      readinessProbe:
        exec: {command: *listens}
        periodSeconds: 10
        timeoutSeconds: 5
      resources: {{- toYaml .values.resources | nindent 8 }}
      volumeMounts:
        - {name: home, mountPath: /home}
        - {name: run, mountPath: /run}
        - {name: slurm, mountPath: /run/slurm, readOnly: true}
        - {name: tmp, mountPath: /tmp, subPath: ssh}
        - {name: words, mountPath: /etc/sunkpy/words, readOnly: true}
        - {name: sshd, mountPath: /config, readOnly: true}
        - {name: host-keys, mountPath: /keys, readOnly: true}
        - {name: ssh-keys, mountPath: /etc/ssh/people, readOnly: true}
        - {name: sshd, mountPath: /etc/pam.d/sshd, subPath: sshd.pam, readOnly: true}
        - {name: ssh-ca, mountPath: /ca, readOnly: true}
        {{- include "slurm.sharedMounts" .root | nindent 8 }}
        {{- include "slurm.directoryMounts" .root | nindent 8 }}
    {{- end }}
    # sackd authenticates the users of the containers beside it. The kernel tells it their uid. Only this container has Slurm's key.
    - name: sackd
      image: {{ .root.Values.images.login }}
      imagePullPolicy: {{ .root.Values.imagePullPolicy }}
      args: [/usr/local/bin/start-sackd]
      env:
        - {name: SUNKPY_CONF_SERVER, value: {{ include "slurm.confServer" .root | quote }}}
        {{- include "slurm.sitePluginsEnv" .root | nindent 8 }}
      securityContext:
        runAsNonRoot: true
        runAsUser: 401
        runAsGroup: 401
        {{- include "sunkpy.locked" .root | nindent 8 }}
      resources: {requests: {cpu: 10m, memory: 32Mi}}
      volumeMounts:
        - {name: slurm, mountPath: /run/login}
        - {name: slurm, mountPath: /run/slurm, subPath: sackd}
        - {name: keys, mountPath: /keys, readOnly: true}
        - {name: scratch, mountPath: /etc/slurm, subPath: etc}
        - {name: scratch, mountPath: /tmp, subPath: tmp}
        # sackd tells Slurm the name and the groups of a caller.
        {{- include "slurm.directoryMounts" .root | nindent 8 }}
  volumes:
    - {{ merge (dict "name" "home") (include "slurm.homeVolume" .root | fromJson) | toJson }}
    {{- include "slurm.sharedVolumes" .root | nindent 4 }}
    - {name: tmp, emptyDir: {{ toJson .root.Values.login.tmp }}}
    - {name: words, configMap: {name: {{ $config }}, items: [{key: motd, path: motd}]}}
    {{- include "slurm.directoryVolumes" .root | nindent 4 }}
    {{- if $ssh }}
    - {name: run, emptyDir: {medium: Memory, sizeLimit: 16Mi}}
    # Without `items`, so that a running pod gets each file that a later configuration names.
    - {name: sshd, configMap: {name: {{ $config }}}}
    - {name: ssh-keys, configMap: {name: {{ .root.Release.Name }}-ssh-keys}}
    {{- include "slurm.sshCAVolume" .root | nindent 4 }}
    # sshd refuses a host key that others could read.
    - {name: host-keys, secret: {secretName: {{ include "slurm.sshHostSecret" .root | quote }}, defaultMode: 0400}}
    {{- end }}
    - {name: slurm, emptyDir: {medium: Memory, sizeLimit: 16Mi}}
    - {name: scratch, emptyDir: {medium: Memory, sizeLimit: 16Mi}}
    # Readable by all, for all in the one container that has it are user slurm; an fsGroup would change the homes.
    - {name: keys, secret: {secretName: {{ include "slurm.slurmSecret" .root | quote }}, defaultMode: 0444}}
{{- end }}

{{- /* The sets of shared login pods: that of `login`, and those of `login.sets`, whose keys replace those of `login`. */}}
{{- define "slurm.loginSets" -}}
{{- $own := merge (dict "service" .Values.login.ssh.service) (omit .Values.login "sets") }}
{{- $sets := list (dict "part" "login" "name" (printf "%s-login" .Release.Name) "label" "" "values" $own) }}
{{- range $set, $values := .Values.login.sets }}
{{- $name := printf "%s-%s-login" $.Release.Name $set }}
{{- $more := deepCopy ($values | default dict) }}
{{- $_ := set $more "service" (mergeOverwrite (deepCopy $own.service) ($more.service | default dict)) }}
{{- range $key, $value := $own }}{{ if not (hasKey $more $key) }}{{ $_ := set $more $key $value }}{{ end }}{{ end }}
{{- $sets = append $sets (dict "part" "login-set" "name" $name "label" $name "values" $more) }}
{{- end }}
{{- toJson $sets }}
{{- end }}

{{- /* The pods that a set may have; call with one of them. */}}
{{- define "slurm.loginPodNames" -}}
{{- $pods := list }}
{{- range until (max 1 (int .values.replicas) | int) }}{{ $pods = append $pods (printf "%s-%d" $.name .) }}{{ end }}
{{- toJson $pods }}
{{- end }}

{{- /* The names under which slurmctld finds a login pod. srun and salloc listen there, and slurmctld calls them by the pod's host name. If
the name does not resolve, the job's nodes stay busy for more than a minute, until slurmctld gives up. Call with (dict "root" $ "part" …
"pod" name). */}}
{{- define "slurm.loginService" -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ .pod }}
  labels: {{- include "slurm.labels" . | nindent 4 }}
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector:
    {{- include "slurm.selector" . | nindent 4 }}
    statefulset.kubernetes.io/pod-name: {{ .pod }}
{{- end }}

{{- /* Whether somebody has a personal login pod; empty if not. */}}
{{- define "slurm.hasOwnLogins" -}}
{{- $own := .Values.login.perUser }}
{{- if and $own.enabled (include "slurm.ssh" .) (or $own.users (and $own.everybody .Values.users.people)) }}true{{ end }}
{{- end }}

{{- /* The people with a personal login pod, by name: {name: of the StatefulSet, values: of the pod}. A key of a person replaces the whole
key of the defaults. */}}
{{- define "slurm.ownLogins" -}}
{{- $own := .Values.login.perUser }}
{{- $people := .Values.users.people | default dict }}
{{- $reserved := splitList " " (trim (include "slurm.reservedNames" .)) }}
{{- $entries := deepCopy ($own.users | default dict) }}
{{- if $own.everybody }}
{{- range $person, $_ := $people }}{{ if not (hasKey $entries $person) }}{{ $_ := set $entries $person dict }}{{ end }}{{ end }}
{{- end }}
{{- $names := dict }}
{{- range $person, $entry := $entries }}
{{- $path := printf "login.perUser.users.%s" $person }}
{{- if has $person $reserved }}{{ fail (printf "%s: the system has a user of that name" $path) }}{{ end }}
{{- if not (or (hasKey $people $person) $.Values.users.sssd.enabled) }}{{ fail (printf "%s: users.people has no %s" $path $person) }}{{ end }}
{{- $word := $person }}
{{- if not (regexMatch "^[a-z]([a-z0-9-]*[a-z0-9])?$" $person) }}
{{- if not (hasKey $people $person) }}{{ fail (printf "%s: no pod can have this name. A person of a directory gets a personal login pod only with a name of lower-case letters, digits and -, which begins with a letter and does not end with -" $path) }}{{ end }}
{{- $word = printf "uid-%d" (int64 (get $people $person).uid) }}
{{- end }}
{{- $name := printf "%s-login-%s" $.Release.Name $word }}
{{- if gt (len $name) 52 }}{{ fail (printf "%s: %s is too long for a StatefulSet: at most 52 characters" $path $name) }}{{ end }}
{{- with get $names $name }}{{ fail (printf "%s: the pod of %s is also called %s-0" $path . $name) }}{{ end }}
{{- $_ := set $names $name $person }}
{{- $values := deepCopy $own.defaults }}
{{- range $key, $value := $entry }}{{ $_ := set $values $key $value }}{{ end }}
{{ $person | quote }}: {{ dict "name" $name "values" $values | toJson }}
{{- end }}
{{- end }}
