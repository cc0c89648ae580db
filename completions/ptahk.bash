# Completion of ptahk for bash. Written by `ptahk completion bash`; do not edit.
_ptahk() {
    local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD - 1]}"
    local path="" candidate words="" i
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        candidate="${path:+$path/}${COMP_WORDS[i]}"
        case "$candidate" in
            "plan" | "apply" | "observe" | "status" | "history" | "approve" | "baseline" | "acknowledge" | "digest" | "digest/realm" | "digest/target" | "digest/plan" | "digest/sequence" | "migrate" | "migrate/new" | "migrate/hash" | "migrate/validate" | "migrate/show" | "migrate/status" | "migrate/repair" | "migrate/rebase" | "census" | "release-lock" | "ledger-sql" | "crds" | "serve" | "completion") path="$candidate" ;;
        esac
    done
    case "$path:$prev" in
        "plan:--output" | "plan:-o")
            mapfile -t COMPREPLY < <(compgen -W "table json yaml sql" -- "$cur")
            return ;;
        "plan:--filename" | "plan:-f")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "plan:--state")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "plan:--name")
            return ;;
        "plan:--key")
            return ;;
        "plan:--url-env")
            return ;;
        "plan:--url-file")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "plan:--engine")
            return ;;
        "plan:--schema")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "plan:--schema-dir")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "plan:--dev-url-env")
            return ;;
        "plan:--dev-template")
            return ;;
        "plan:--protect")
            return ;;
        "plan:--exclude")
            return ;;
        "plan:--schemas")
            return ;;
        "plan:--lock-timeout")
            return ;;
        "plan:--coordination-timeout")
            return ;;
        "plan:--rename")
            return ;;
        "plan:--privileges")
            mapfile -t COMPREPLY < <(compgen -W "Declared Managed" -- "$cur")
            return ;;
        "plan:--partitions")
            mapfile -t COMPREPLY < <(compgen -W "Declared Managed" -- "$cur")
            return ;;
        "plan:--transaction-mode")
            mapfile -t COMPREPLY < <(compgen -W "auto file none" -- "$cur")
            return ;;
        "plan:--deadline")
            return ;;
        "plan:--migrations")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "plan:--format")
            mapfile -t COMPREPLY < <(compgen -W "ptahk atlas golang-migrate goose dbmate flyway diesel" -- "$cur")
            return ;;
        "plan:--stream")
            return ;;
        "plan:--history-table")
            return ;;
        "plan:--ahead")
            mapfile -t COMPREPLY < <(compgen -W "Refuse Accept" -- "$cur")
            return ;;
        "plan:--placeholder")
            return ;;
        "plan:--to")
            return ;;
        "plan:--limit")
            return ;;
        "plan:--out")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "plan:--timeout")
            return ;;
        "plan:--kubeconfig")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "plan:--context")
            return ;;
        "plan:--namespace" | "plan:-n")
            return ;;
        "plan:--coordination-namespace")
            return ;;
        "apply:--output" | "apply:-o")
            mapfile -t COMPREPLY < <(compgen -W "table json yaml" -- "$cur")
            return ;;
        "apply:--filename" | "apply:-f")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "apply:--state")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "apply:--name")
            return ;;
        "apply:--key")
            return ;;
        "apply:--url-env")
            return ;;
        "apply:--url-file")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "apply:--engine")
            return ;;
        "apply:--schema")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "apply:--schema-dir")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "apply:--dev-url-env")
            return ;;
        "apply:--dev-template")
            return ;;
        "apply:--protect")
            return ;;
        "apply:--exclude")
            return ;;
        "apply:--schemas")
            return ;;
        "apply:--lock-timeout")
            return ;;
        "apply:--coordination-timeout")
            return ;;
        "apply:--rename")
            return ;;
        "apply:--privileges")
            mapfile -t COMPREPLY < <(compgen -W "Declared Managed" -- "$cur")
            return ;;
        "apply:--partitions")
            mapfile -t COMPREPLY < <(compgen -W "Declared Managed" -- "$cur")
            return ;;
        "apply:--transaction-mode")
            mapfile -t COMPREPLY < <(compgen -W "auto file none" -- "$cur")
            return ;;
        "apply:--deadline")
            return ;;
        "apply:--migrations")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "apply:--format")
            mapfile -t COMPREPLY < <(compgen -W "ptahk atlas golang-migrate goose dbmate flyway diesel" -- "$cur")
            return ;;
        "apply:--stream")
            return ;;
        "apply:--history-table")
            return ;;
        "apply:--ahead")
            mapfile -t COMPREPLY < <(compgen -W "Refuse Accept" -- "$cur")
            return ;;
        "apply:--placeholder")
            return ;;
        "apply:--to")
            return ;;
        "apply:--limit")
            return ;;
        "apply:--plan")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "apply:--approve")
            return ;;
        "apply:--timeout")
            return ;;
        "apply:--kubeconfig")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "apply:--context")
            return ;;
        "apply:--namespace" | "apply:-n")
            return ;;
        "apply:--coordination-namespace")
            return ;;
        "observe:--output" | "observe:-o")
            mapfile -t COMPREPLY < <(compgen -W "table json yaml sql" -- "$cur")
            return ;;
        "observe:--filename" | "observe:-f")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "observe:--state")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "observe:--name")
            return ;;
        "observe:--key")
            return ;;
        "observe:--url-env")
            return ;;
        "observe:--url-file")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "observe:--engine")
            return ;;
        "observe:--schema")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "observe:--schema-dir")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "observe:--dev-url-env")
            return ;;
        "observe:--dev-template")
            return ;;
        "observe:--protect")
            return ;;
        "observe:--exclude")
            return ;;
        "observe:--schemas")
            return ;;
        "observe:--lock-timeout")
            return ;;
        "observe:--coordination-timeout")
            return ;;
        "observe:--rename")
            return ;;
        "observe:--privileges")
            mapfile -t COMPREPLY < <(compgen -W "Declared Managed" -- "$cur")
            return ;;
        "observe:--partitions")
            mapfile -t COMPREPLY < <(compgen -W "Declared Managed" -- "$cur")
            return ;;
        "observe:--transaction-mode")
            mapfile -t COMPREPLY < <(compgen -W "auto file none" -- "$cur")
            return ;;
        "observe:--deadline")
            return ;;
        "observe:--migrations")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "observe:--format")
            mapfile -t COMPREPLY < <(compgen -W "ptahk atlas golang-migrate goose dbmate flyway diesel" -- "$cur")
            return ;;
        "observe:--stream")
            return ;;
        "observe:--history-table")
            return ;;
        "observe:--ahead")
            mapfile -t COMPREPLY < <(compgen -W "Refuse Accept" -- "$cur")
            return ;;
        "observe:--placeholder")
            return ;;
        "observe:--severity")
            mapfile -t COMPREPLY < <(compgen -W "safe warning privilege destructive" -- "$cur")
            return ;;
        "observe:--timeout")
            return ;;
        "observe:--kubeconfig")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "observe:--context")
            return ;;
        "observe:--namespace" | "observe:-n")
            return ;;
        "observe:--coordination-namespace")
            return ;;
        "status:--output" | "status:-o")
            mapfile -t COMPREPLY < <(compgen -W "table json yaml" -- "$cur")
            return ;;
        "status:--filename" | "status:-f")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "status:--state")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "status:--name")
            return ;;
        "status:--key")
            return ;;
        "status:--url-env")
            return ;;
        "status:--url-file")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "status:--timeout")
            return ;;
        "status:--kubeconfig")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "status:--context")
            return ;;
        "status:--namespace" | "status:-n")
            return ;;
        "status:--coordination-namespace")
            return ;;
        "history:--output" | "history:-o")
            mapfile -t COMPREPLY < <(compgen -W "table json yaml" -- "$cur")
            return ;;
        "history:--filename" | "history:-f")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "history:--state")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "history:--name")
            return ;;
        "history:--key")
            return ;;
        "history:--url-env")
            return ;;
        "history:--url-file")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "history:--kubeconfig")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "history:--context")
            return ;;
        "history:--namespace" | "history:-n")
            return ;;
        "history:--coordination-namespace")
            return ;;
        "approve:--output" | "approve:-o")
            mapfile -t COMPREPLY < <(compgen -W "table json yaml" -- "$cur")
            return ;;
        "approve:--filename" | "approve:-f")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "approve:--state")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "approve:--name")
            return ;;
        "approve:--key")
            return ;;
        "approve:--url-env")
            return ;;
        "approve:--url-file")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "approve:--plan")
            return ;;
        "approve:--kubeconfig")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "approve:--context")
            return ;;
        "approve:--namespace" | "approve:-n")
            return ;;
        "approve:--coordination-namespace")
            return ;;
        "baseline:--to")
            return ;;
        "baseline:--from")
            mapfile -t COMPREPLY < <(compgen -W "auto golang-migrate dbmate goose atlas flyway diesel ptah" -- "$cur")
            return ;;
        "baseline:--output" | "baseline:-o")
            mapfile -t COMPREPLY < <(compgen -W "table json yaml" -- "$cur")
            return ;;
        "baseline:--filename" | "baseline:-f")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "baseline:--state")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "baseline:--name")
            return ;;
        "baseline:--key")
            return ;;
        "baseline:--url-env")
            return ;;
        "baseline:--url-file")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "baseline:--engine")
            return ;;
        "baseline:--schema")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "baseline:--schema-dir")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "baseline:--dev-url-env")
            return ;;
        "baseline:--dev-template")
            return ;;
        "baseline:--protect")
            return ;;
        "baseline:--exclude")
            return ;;
        "baseline:--schemas")
            return ;;
        "baseline:--lock-timeout")
            return ;;
        "baseline:--coordination-timeout")
            return ;;
        "baseline:--rename")
            return ;;
        "baseline:--privileges")
            mapfile -t COMPREPLY < <(compgen -W "Declared Managed" -- "$cur")
            return ;;
        "baseline:--partitions")
            mapfile -t COMPREPLY < <(compgen -W "Declared Managed" -- "$cur")
            return ;;
        "baseline:--transaction-mode")
            mapfile -t COMPREPLY < <(compgen -W "auto file none" -- "$cur")
            return ;;
        "baseline:--deadline")
            return ;;
        "baseline:--migrations")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "baseline:--format")
            mapfile -t COMPREPLY < <(compgen -W "ptahk atlas golang-migrate goose dbmate flyway diesel" -- "$cur")
            return ;;
        "baseline:--stream")
            return ;;
        "baseline:--history-table")
            return ;;
        "baseline:--ahead")
            mapfile -t COMPREPLY < <(compgen -W "Refuse Accept" -- "$cur")
            return ;;
        "baseline:--placeholder")
            return ;;
        "baseline:--timeout")
            return ;;
        "baseline:--kubeconfig")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "baseline:--context")
            return ;;
        "baseline:--namespace" | "baseline:-n")
            return ;;
        "baseline:--coordination-namespace")
            return ;;
        "acknowledge:--operation")
            return ;;
        "acknowledge:--statement")
            mapfile -t COMPREPLY < <(compgen -W "applied not-applied" -- "$cur")
            return ;;
        "acknowledge:--reason")
            return ;;
        "acknowledge:--output" | "acknowledge:-o")
            mapfile -t COMPREPLY < <(compgen -W "table json yaml" -- "$cur")
            return ;;
        "acknowledge:--filename" | "acknowledge:-f")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "acknowledge:--state")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "acknowledge:--name")
            return ;;
        "acknowledge:--key")
            return ;;
        "acknowledge:--url-env")
            return ;;
        "acknowledge:--url-file")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "acknowledge:--migrations")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "acknowledge:--format")
            mapfile -t COMPREPLY < <(compgen -W "ptahk atlas golang-migrate goose dbmate flyway diesel" -- "$cur")
            return ;;
        "acknowledge:--stream")
            return ;;
        "acknowledge:--history-table")
            return ;;
        "acknowledge:--ahead")
            mapfile -t COMPREPLY < <(compgen -W "Refuse Accept" -- "$cur")
            return ;;
        "acknowledge:--placeholder")
            return ;;
        "acknowledge:--timeout")
            return ;;
        "acknowledge:--kubeconfig")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "acknowledge:--context")
            return ;;
        "acknowledge:--namespace" | "acknowledge:-n")
            return ;;
        "acknowledge:--coordination-namespace")
            return ;;
        "digest/realm:--engine")
            return ;;
        "digest/realm:--key")
            return ;;
        "digest/realm:--output" | "digest/realm:-o")
            mapfile -t COMPREPLY < <(compgen -W "table json yaml" -- "$cur")
            return ;;
        "digest/target:--engine")
            return ;;
        "digest/target:--url-env")
            return ;;
        "digest/target:--url-file")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "digest/target:--output" | "digest/target:-o")
            mapfile -t COMPREPLY < <(compgen -W "table json yaml" -- "$cur")
            return ;;
        "digest/plan:--output" | "digest/plan:-o")
            mapfile -t COMPREPLY < <(compgen -W "table json yaml" -- "$cur")
            return ;;
        "digest/sequence:--engine")
            return ;;
        "digest/sequence:--format")
            return ;;
        "digest/sequence:--output" | "digest/sequence:-o")
            mapfile -t COMPREPLY < <(compgen -W "table json yaml" -- "$cur")
            return ;;
        "migrate/new:--migrations")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "migrate/new:--engine")
            mapfile -t COMPREPLY < <(compgen -W "postgresql mysql mariadb" -- "$cur")
            return ;;
        "migrate/new:--format")
            mapfile -t COMPREPLY < <(compgen -W "ptahk atlas golang-migrate goose dbmate flyway diesel" -- "$cur")
            return ;;
        "migrate/new:--output" | "migrate/new:-o")
            mapfile -t COMPREPLY < <(compgen -W "table json yaml" -- "$cur")
            return ;;
        "migrate/hash:--engine")
            mapfile -t COMPREPLY < <(compgen -W "postgresql mysql mariadb" -- "$cur")
            return ;;
        "migrate/hash:--format")
            mapfile -t COMPREPLY < <(compgen -W "ptahk atlas golang-migrate goose dbmate flyway diesel" -- "$cur")
            return ;;
        "migrate/hash:--output" | "migrate/hash:-o")
            mapfile -t COMPREPLY < <(compgen -W "table json yaml" -- "$cur")
            return ;;
        "migrate/validate:--engine")
            mapfile -t COMPREPLY < <(compgen -W "postgresql mysql mariadb" -- "$cur")
            return ;;
        "migrate/validate:--format")
            mapfile -t COMPREPLY < <(compgen -W "ptahk atlas golang-migrate goose dbmate flyway diesel" -- "$cur")
            return ;;
        "migrate/validate:--placeholder")
            return ;;
        "migrate/validate:--base")
            return ;;
        "migrate/validate:--dev-url-env")
            return ;;
        "migrate/validate:--output" | "migrate/validate:-o")
            mapfile -t COMPREPLY < <(compgen -W "table json yaml sarif" -- "$cur")
            return ;;
        "migrate/show:--migrations")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "migrate/show:--engine")
            mapfile -t COMPREPLY < <(compgen -W "postgresql mysql mariadb" -- "$cur")
            return ;;
        "migrate/show:--format")
            mapfile -t COMPREPLY < <(compgen -W "ptahk atlas golang-migrate goose dbmate flyway diesel" -- "$cur")
            return ;;
        "migrate/show:--output" | "migrate/show:-o")
            mapfile -t COMPREPLY < <(compgen -W "table json yaml" -- "$cur")
            return ;;
        "migrate/status:--output" | "migrate/status:-o")
            mapfile -t COMPREPLY < <(compgen -W "table json yaml" -- "$cur")
            return ;;
        "migrate/status:--filename" | "migrate/status:-f")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "migrate/status:--state")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "migrate/status:--name")
            return ;;
        "migrate/status:--key")
            return ;;
        "migrate/status:--url-env")
            return ;;
        "migrate/status:--url-file")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "migrate/status:--engine")
            return ;;
        "migrate/status:--schema")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "migrate/status:--schema-dir")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "migrate/status:--dev-url-env")
            return ;;
        "migrate/status:--dev-template")
            return ;;
        "migrate/status:--protect")
            return ;;
        "migrate/status:--exclude")
            return ;;
        "migrate/status:--schemas")
            return ;;
        "migrate/status:--lock-timeout")
            return ;;
        "migrate/status:--coordination-timeout")
            return ;;
        "migrate/status:--rename")
            return ;;
        "migrate/status:--privileges")
            mapfile -t COMPREPLY < <(compgen -W "Declared Managed" -- "$cur")
            return ;;
        "migrate/status:--partitions")
            mapfile -t COMPREPLY < <(compgen -W "Declared Managed" -- "$cur")
            return ;;
        "migrate/status:--transaction-mode")
            mapfile -t COMPREPLY < <(compgen -W "auto file none" -- "$cur")
            return ;;
        "migrate/status:--deadline")
            return ;;
        "migrate/status:--migrations")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "migrate/status:--format")
            mapfile -t COMPREPLY < <(compgen -W "ptahk atlas golang-migrate goose dbmate flyway diesel" -- "$cur")
            return ;;
        "migrate/status:--stream")
            return ;;
        "migrate/status:--history-table")
            return ;;
        "migrate/status:--ahead")
            mapfile -t COMPREPLY < <(compgen -W "Refuse Accept" -- "$cur")
            return ;;
        "migrate/status:--placeholder")
            return ;;
        "migrate/status:--kubeconfig")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "migrate/status:--context")
            return ;;
        "migrate/status:--namespace" | "migrate/status:-n")
            return ;;
        "migrate/status:--coordination-namespace")
            return ;;
        "migrate/repair:--reason")
            return ;;
        "migrate/repair:--output" | "migrate/repair:-o")
            mapfile -t COMPREPLY < <(compgen -W "table json yaml" -- "$cur")
            return ;;
        "migrate/repair:--filename" | "migrate/repair:-f")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "migrate/repair:--state")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "migrate/repair:--name")
            return ;;
        "migrate/repair:--key")
            return ;;
        "migrate/repair:--url-env")
            return ;;
        "migrate/repair:--url-file")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "migrate/repair:--engine")
            return ;;
        "migrate/repair:--schema")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "migrate/repair:--schema-dir")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "migrate/repair:--dev-url-env")
            return ;;
        "migrate/repair:--dev-template")
            return ;;
        "migrate/repair:--protect")
            return ;;
        "migrate/repair:--exclude")
            return ;;
        "migrate/repair:--schemas")
            return ;;
        "migrate/repair:--lock-timeout")
            return ;;
        "migrate/repair:--coordination-timeout")
            return ;;
        "migrate/repair:--rename")
            return ;;
        "migrate/repair:--privileges")
            mapfile -t COMPREPLY < <(compgen -W "Declared Managed" -- "$cur")
            return ;;
        "migrate/repair:--partitions")
            mapfile -t COMPREPLY < <(compgen -W "Declared Managed" -- "$cur")
            return ;;
        "migrate/repair:--transaction-mode")
            mapfile -t COMPREPLY < <(compgen -W "auto file none" -- "$cur")
            return ;;
        "migrate/repair:--deadline")
            return ;;
        "migrate/repair:--migrations")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "migrate/repair:--format")
            mapfile -t COMPREPLY < <(compgen -W "ptahk atlas golang-migrate goose dbmate flyway diesel" -- "$cur")
            return ;;
        "migrate/repair:--stream")
            return ;;
        "migrate/repair:--history-table")
            return ;;
        "migrate/repair:--ahead")
            mapfile -t COMPREPLY < <(compgen -W "Refuse Accept" -- "$cur")
            return ;;
        "migrate/repair:--placeholder")
            return ;;
        "migrate/repair:--timeout")
            return ;;
        "migrate/repair:--kubeconfig")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "migrate/repair:--context")
            return ;;
        "migrate/repair:--namespace" | "migrate/repair:-n")
            return ;;
        "migrate/repair:--coordination-namespace")
            return ;;
        "migrate/rebase:--migrations")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "migrate/rebase:--engine")
            mapfile -t COMPREPLY < <(compgen -W "postgresql mysql mariadb" -- "$cur")
            return ;;
        "migrate/rebase:--format")
            mapfile -t COMPREPLY < <(compgen -W "ptahk atlas golang-migrate goose dbmate flyway diesel" -- "$cur")
            return ;;
        "migrate/rebase:--output" | "migrate/rebase:-o")
            mapfile -t COMPREPLY < <(compgen -W "table json yaml" -- "$cur")
            return ;;
        "census:--filename" | "census:-f")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "census:--output" | "census:-o")
            mapfile -t COMPREPLY < <(compgen -W "table json yaml" -- "$cur")
            return ;;
        "census:--kubeconfig")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "census:--context")
            return ;;
        "census:--namespace" | "census:-n")
            return ;;
        "census:--coordination-namespace")
            return ;;
        "release-lock:--realm")
            return ;;
        "release-lock:--operation")
            return ;;
        "release-lock:--reason")
            return ;;
        "release-lock:--output" | "release-lock:-o")
            mapfile -t COMPREPLY < <(compgen -W "table json yaml" -- "$cur")
            return ;;
        "release-lock:--filename" | "release-lock:-f")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "release-lock:--state")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "release-lock:--name")
            return ;;
        "release-lock:--key")
            return ;;
        "release-lock:--url-env")
            return ;;
        "release-lock:--url-file")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "release-lock:--kubeconfig")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "release-lock:--context")
            return ;;
        "release-lock:--namespace" | "release-lock:-n")
            return ;;
        "release-lock:--coordination-namespace")
            return ;;
        "ledger-sql:--engine")
            return ;;
        "ledger-sql:--grant-to")
            return ;;
        "ledger-sql:--output" | "ledger-sql:-o")
            mapfile -t COMPREPLY < <(compgen -W "table json yaml" -- "$cur")
            return ;;
        "crds:--output" | "crds:-o")
            mapfile -t COMPREPLY < <(compgen -W "yaml json" -- "$cur")
            return ;;
        "serve:--image")
            return ;;
        "serve:--image-pull-policy")
            mapfile -t COMPREPLY < <(compgen -W "IfNotPresent Always Never" -- "$cur")
            return ;;
        "serve:--coordination-namespace")
            return ;;
        "serve:--listen")
            return ;;
        "serve:--webhook-listen")
            return ;;
        "serve:--webhook-certificates")
            mapfile -t COMPREPLY < <(compgen -W "own DIRECTORY" -- "$cur")
            return ;;
        "serve:--default-tolerations")
            return ;;
        "serve:--admission-plugin")
            return ;;
        "serve:--workers")
            return ;;
        "serve:--leader-lease")
            return ;;
        "serve:--kubeconfig")
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return ;;
        "serve:--context")
            return ;;
    esac
    case "$path" in
        "") words="plan apply observe status history approve baseline acknowledge digest migrate census release-lock ledger-sql crds serve completion --version --help" ;;
        "plan") words="--output -o --quiet -q --verbose -v --no-color --filename -f --local --state --name --key --url-env --url-file --engine --schema --schema-dir --dev-url-env --dev-template --allow-destructive --protect --exclude --schemas --lock-timeout --coordination-timeout --rename --privileges --partitions --transaction-mode --deadline --migrations --format --stream --history-table --ahead --placeholder --placeholders-off --to --limit --out --exit-code --timeout --kubeconfig --context --namespace -n --all-namespaces -A --coordination-namespace --help" ;;
        "apply") words="--output -o --quiet -q --verbose -v --no-color --filename -f --local --state --name --key --url-env --url-file --engine --schema --schema-dir --dev-url-env --dev-template --allow-destructive --protect --exclude --schemas --lock-timeout --coordination-timeout --rename --privileges --partitions --transaction-mode --deadline --migrations --format --stream --history-table --ahead --placeholder --placeholders-off --to --limit --plan --approve --auto-approve --timeout --kubeconfig --context --namespace -n --all-namespaces -A --coordination-namespace --help" ;;
        "observe") words="--output -o --quiet -q --verbose -v --no-color --filename -f --local --state --name --key --url-env --url-file --engine --schema --schema-dir --dev-url-env --dev-template --allow-destructive --protect --exclude --schemas --lock-timeout --coordination-timeout --rename --privileges --partitions --transaction-mode --deadline --migrations --format --stream --history-table --ahead --placeholder --placeholders-off --severity --exit-code --timeout --kubeconfig --context --namespace -n --all-namespaces -A --coordination-namespace --help" ;;
        "status") words="--output -o --quiet -q --verbose -v --no-color --filename -f --local --state --name --key --url-env --url-file --watch --timeout --kubeconfig --context --namespace -n --all-namespaces -A --coordination-namespace --help" ;;
        "history") words="--output -o --quiet -q --verbose -v --no-color --filename -f --local --state --name --key --url-env --url-file --kubeconfig --context --namespace -n --all-namespaces -A --coordination-namespace --help" ;;
        "approve") words="--output -o --quiet -q --verbose -v --no-color --filename -f --local --state --name --key --url-env --url-file --plan --kubeconfig --context --namespace -n --all-namespaces -A --coordination-namespace --help" ;;
        "baseline") words="--to --from --accept-unverified --output -o --quiet -q --verbose -v --no-color --filename -f --local --state --name --key --url-env --url-file --engine --schema --schema-dir --dev-url-env --dev-template --allow-destructive --protect --exclude --schemas --lock-timeout --coordination-timeout --rename --privileges --partitions --transaction-mode --deadline --migrations --format --stream --history-table --ahead --placeholder --placeholders-off --timeout --kubeconfig --context --namespace -n --all-namespaces -A --coordination-namespace --help" ;;
        "acknowledge") words="--frozen --rebind --operation --statement --resolved --abandon --reason --output -o --quiet -q --verbose -v --no-color --filename -f --local --state --name --key --url-env --url-file --migrations --format --stream --history-table --ahead --placeholder --placeholders-off --timeout --kubeconfig --context --namespace -n --all-namespaces -A --coordination-namespace --help" ;;
        "digest") words="realm target plan sequence --help" ;;
        "digest/realm") words="--engine --key --output -o --quiet -q --verbose -v --no-color --help" ;;
        "digest/target") words="--engine --url-env --url-file --output -o --quiet -q --verbose -v --no-color --help" ;;
        "digest/plan") words="--output -o --quiet -q --verbose -v --no-color --help" ;;
        "digest/sequence") words="--engine --format --output -o --quiet -q --verbose -v --no-color --help" ;;
        "migrate") words="new hash validate show status repair rebase --help" ;;
        "migrate/new") words="--migrations --engine --format --output -o --quiet -q --verbose -v --no-color --help" ;;
        "migrate/hash") words="--engine --format --check --output -o --quiet -q --verbose -v --no-color --help" ;;
        "migrate/validate") words="--engine --format --placeholder --placeholders-off --base --dev-url-env --output -o --quiet -q --verbose -v --no-color --help" ;;
        "migrate/show") words="--migrations --engine --format --output -o --quiet -q --verbose -v --no-color --help" ;;
        "migrate/status") words="[DIR REF] --output -o --quiet -q --verbose -v --no-color --filename -f --local --state --name --key --url-env --url-file --engine --schema --schema-dir --dev-url-env --dev-template --allow-destructive --protect --exclude --schemas --lock-timeout --coordination-timeout --rename --privileges --partitions --transaction-mode --deadline --migrations --format --stream --history-table --ahead --placeholder --placeholders-off --kubeconfig --context --namespace -n --all-namespaces -A --coordination-namespace --help" ;;
        "migrate/repair") words="--accept-edit --reason --output -o --quiet -q --verbose -v --no-color --filename -f --local --state --name --key --url-env --url-file --engine --schema --schema-dir --dev-url-env --dev-template --allow-destructive --protect --exclude --schemas --lock-timeout --coordination-timeout --rename --privileges --partitions --transaction-mode --deadline --migrations --format --stream --history-table --ahead --placeholder --placeholders-off --timeout --kubeconfig --context --namespace -n --all-namespaces -A --coordination-namespace --help" ;;
        "migrate/rebase") words="--migrations --engine --format --output -o --quiet -q --verbose -v --no-color --help" ;;
        "census") words="--filename -f --conflicts --unsettled --output -o --quiet -q --verbose -v --no-color --kubeconfig --context --namespace -n --all-namespaces -A --coordination-namespace --help" ;;
        "release-lock") words="--realm --dry-run --force --operation --reason --output -o --quiet -q --verbose -v --no-color --filename -f --local --state --name --key --url-env --url-file --kubeconfig --context --namespace -n --all-namespaces -A --coordination-namespace --help" ;;
        "ledger-sql") words="--engine --grant-to --output -o --quiet -q --verbose -v --no-color --help" ;;
        "crds") words="--output -o --help" ;;
        "serve") words="--image --image-pull-policy --coordination-namespace --listen --webhook-listen --webhook-certificates --default-tolerations --admission-plugin --workers --leader-lease --kubeconfig --context --verbose -v --help" ;;
        "completion") words="bash zsh fish --help" ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
}
complete -o default -F _ptahk ptahk kubectl-ptahk
