{{- /* Of the login pods, and, with .compute, of the sshd beside slurmd. */ -}}
{{- $ssh := .Values.login.ssh -}}
{{- $forwarding := get (dict "all" "yes" "local" "local" "none" "no") $ssh.portForwarding -}}
{{- if regexMatch "(?im)^\\s*(allow(tcp|streamlocal)|x11)forwarding\\b" (regexSplit "(?im)^\\s*match\\b" $ssh.extra 2 | first) }}
{{- fail "login.ssh.extra sets forwarding: use login.ssh.portForwarding and login.ssh.x11 for that" }}
{{- end -}}
{{- $folder := .compute | ternary "/etc/sunkpy/sshd" "" -}}
{{- $ca := $ssh.existingCASecret | empty | ternary "config" "ca" | printf "%s/%s" $folder -}}
{{- $certificates := or $ssh.trustedUserCAKeys $ssh.existingCASecret -}}
{{- if and $ssh.existingCASecret (or $ssh.trustedUserCAKeys $ssh.revokedKeys) }}
{{- fail "login.ssh.existingCASecret: the files of this Secret take the place of login.ssh.trustedUserCAKeys and login.ssh.revokedKeys: leave these two values empty, and put their lines into the Secret" }}
{{- end }}
{{- if and $ssh.principals (not $certificates) }}
{{- fail "login.ssh.principals: only certificates have principals, and the values name no authority that signs certificates: set login.ssh.trustedUserCAKeys or login.ssh.existingCASecret" }}
{{- end }}
{{- if $ssh.onlyCertificates }}
{{- if not $certificates }}{{ fail "login.ssh.onlyCertificates: nobody could log in, because the values name no authority that signs certificates: set login.ssh.trustedUserCAKeys or login.ssh.existingCASecret" }}{{ end }}
{{- if $ssh.ownKeys }}{{ fail "login.ssh.onlyCertificates: login.ssh.ownKeys would let people in by keys of their own: set only one of the two" }}{{ end }}
{{- end -}}
# sshd uses the first line of each option, so login.ssh.extra, which comes last, can only add options. A Match block
# in it could change these; PAM would still refuse every password, and everybody below uid 1000.
Port {{ .compute | ternary 22 2222 }}
PidFile /run/sshd.pid
{{- $asks := and $ssh.secondFactor (not .compute) | empty | not }}
AuthenticationMethods publickey{{ if $asks }},keyboard-interactive:pam{{ end }}
PubkeyAuthentication yes
PasswordAuthentication no
KbdInteractiveAuthentication {{ $asks | ternary "yes" "no" }}
HostbasedAuthentication no
PermitRootLogin no
PermitUserEnvironment no
PermitTunnel no
GatewayPorts no
AllowTcpForwarding {{ $forwarding }}
AllowStreamLocalForwarding {{ $forwarding }}
X11Forwarding {{ $ssh.x11 | ternary "yes" "no" }}
StrictModes yes
UsePAM yes
AuthorizedKeysCommand {{ $ssh.onlyCertificates | ternary "/usr/bin/true" "/usr/local/bin/ssh-keys-of %u" }}
AuthorizedKeysCommandUser nobody
AuthorizedKeysFile {{ $ssh.ownKeys | ternary ".ssh/authorized_keys" "none" }}
TrustedUserCAKeys {{ $certificates | empty | ternary "none" (printf "%s/trusted_user_ca_keys" $ca) }}
{{- if $certificates }}
# PAM would treat the uid of this user of the system as a person's.
DenyUsers nobody
{{- end }}
{{- if or $ssh.existingCASecret $ssh.revokedKeys }}
RevokedKeys {{ $ca }}/revoked_keys
{{- end }}
{{- if $ssh.principals }}
# A person who is not in this file has only their name as principal.
AuthorizedPrincipalsCommand /usr/bin/awk 'BEGIN { user = ARGV[1]; ARGV[1] = "" } $1 == user { print $2; listed = 1 } END { if (!listed) print user }' %u {{ $folder }}/config/principals
AuthorizedPrincipalsCommandUser nobody
{{- end }}
# The login shell prints the greeting, as it does for people who come by kubectl.
PrintMotd no
PrintLastLog no
UseDNS no
Subsystem sftp internal-sftp
# Behind a Service all people may seem to come from one address: sshd must not shut it out for what one of them did.
PerSourcePenalties no
ClientAliveInterval 60
{{- if not .compute }}
{{- with $ssh.extra }}
{{ . }}
{{- end }}
{{- end }}
