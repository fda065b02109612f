{{- /* People and groups as LDIF: unfolded, what people write in base64, so that nothing of it can be another line. What
contradicts itself is refused by name. */}}
{{- define "openldap.entries" -}}
{{- $gids := dict }}{{/* gid → whose it is */}}
{{- $members := dict }}
{{- range $group, $values := .Values.groups }}
{{- $gid := int64 $values.gid | toString }}
{{- with get $gids $gid }}{{ fail (printf "groups.%s: gid %s is already used by %s" $group $gid .) }}{{ end }}
{{- $_ := set $gids $gid $group }}
{{- $_ := set $members $group list }}
{{- end }}
{{- $uids := dict }}
{{- $own := dict }}
{{- range $name, $person := .Values.people }}
{{- $uid := int64 $person.uid | toString }}
{{- with get $uids $uid }}{{ fail (printf "people.%s: uid %s is already used by %s" $name $uid .) }}{{ end }}
{{- $_ := set $uids $uid $name }}
{{- if hasKey $members $name }}{{ fail (printf "people.%s: groups has a group %s, too: rename one of the two" $name $name) }}{{ end }}
{{- if $person.group }}
{{- if not (hasKey $members $person.group) }}{{ fail (printf "people.%s.group: groups has no %s" $name $person.group) }}{{ end }}
{{- else }}
{{- with get $gids $uid }}{{ fail (printf "people.%s: without people.%s.group, %s gets a group whose gid is the uid, but gid %s is already used by %s: set people.%s.group" $name $name $name $uid . $name) }}{{ end }}
{{- $_ := set $gids $uid $name }}
{{- $_ := set $own $name $uid }}
{{- end }}
{{- range $person.groups }}
{{- if not (hasKey $members .) }}{{ fail (printf "people.%s.groups: groups has no %s" $name .) }}{{ end }}
{{- $_ := set $members . (append (get $members .) $name) }}
{{- end }}
{{- $fullName := $person.fullName | default "" | trim | default $name }}
{{- $gid := $uid }}
{{- with $person.group }}{{ $gid = get (get $.Values.groups .) "gid" | int64 | toString }}{{ end }}
dn: uid={{ $name }},ou=people,{{ $.Values.suffix }}
objectClass: inetOrgPerson
objectClass: posixAccount
objectClass: ldapPublicKey
uid: {{ $name }}
cn:: {{ b64enc $fullName }}
sn:: {{ $fullName | splitList " " | last | b64enc }}
uidNumber: {{ $uid }}
gidNumber: {{ $gid }}
homeDirectory: /home/{{ $name }}
loginShell: {{ $person.shell | default "/bin/bash" }}
{{- range $person.sshKeys }}
sshPublicKey:: {{ b64enc . }}
{{- end }}
{{ end }}
{{- range $name, $gid := $own }}
dn: cn={{ $name }},ou=groups,{{ $.Values.suffix }}
objectClass: posixGroup
cn: {{ $name }}
gidNumber: {{ $gid }}
{{ end }}
{{- range $group, $values := .Values.groups }}
dn: cn={{ $group }},ou=groups,{{ $.Values.suffix }}
objectClass: posixGroup
cn: {{ $group }}
gidNumber: {{ int64 $values.gid }}
{{- range get $members $group }}
memberUid: {{ . }}
{{- end }}
{{ end }}
{{- end }}
