# bash completion for Paceline's programs. It knows no option: everything comes from --help, so it
# can't be out of date. Source it, or install it as
# PREFIX/share/bash-completion/completions/paceline and link the program names to it.

# The commands of a program: words behind its name in the usage lines ("ckpt list|latest DIR"), and
# where the usage says COMMAND, lines that begin with a word ("  run   start a job").
_paceline_commands() { # PROGRAM HELP
	awk -v program="$1" '
		/^usage:.* COMMAND/ { listed = 1 }
		/^  [a-z][a-z-]*  / && listed { print $1 }
		/^usage:/ { usage = 1; sub(/^usage: */, "") }
		usage {
			sub(/^ +/, "")
			if (index($0, program " ") != 1) { usage = index($0, "[") == 1; next }
			word = $2
			for (i = 2; i <= NF && word ~ /^\[/; i++) {
				while (i <= NF && $i !~ /\]$/) i++
				word = $(i + 1)
			}
			if (word ~ /^[a-z][a-z|-]*$/) { gsub(/\|/, "\n", word); print word }
		}' <<<"$2"
}

# What the value of an option is: its choices ("= a|b|c"), or the name that the help gives it.
_paceline_value() { # OPTION HELP
	awk -v option="$1" '
		/^  -/ {
			name = ""
			for (i = 1; i <= NF && i <= 3; i++) {
				word = $i
				sub(/,$/, "", word)
				if (word == option) found = 1
				if (word !~ /^-/ && name == "") name = word
			}
			if (found) {
				if (match($0, /: [^ ]+\|[^ ]+$/)) {
					print "=" substr($0, RSTART + 2)
				} else print name
				exit
			}
		}' <<<"$2"
}

_paceline() {
	local program=$1 current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
	local help command='' value word
	COMPREPLY=()
	help=$("$program" --help 2>/dev/null </dev/null) || return
	local commands
	commands=$(_paceline_commands "${program##*/}" "$help")
	for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
		if grep -qxF -e "$word" <<<"$commands"; then
			command=$word
			# A command may have options of its own.
			help+=$'\n'$("$program" "$command" --help 2>/dev/null </dev/null)
			break
		fi
	done
	if [[ $previous == -* ]]; then
		value=$(_paceline_value "$previous" "$help")
		case $value in
		=*) mapfile -t COMPREPLY < <(tr '|' '\n' <<<"${value#=}" | grep -e "^$current")
			return ;;
		DIR | *_DIR) mapfile -t COMPREPLY < <(compgen -d -- "$current"); return ;;
		*FILE* | *PATH* | *SOCKET* | *SOCK* | CHECKPOINT | INDEX | CKPT | JOB.env)
			mapfile -t COMPREPLY < <(compgen -f -- "$current"); return ;;
		KEY=VALUE) # of a job file: the help lists them
			mapfile -t COMPREPLY < <(sed -n 's/^  \([A-Z][A-Z0-9_]*\)  *.*/\1=/p' <<<"$help" |
				grep -e "^$current")
			return ;;
		[A-Z]*) return ;; # a number, an id: nothing to offer
		esac
	fi
	if [[ $current == -* ]]; then
		mapfile -t COMPREPLY < <(grep -o -e '^  \(-., \)\?--[a-z-]*' <<<"$help" |
			grep -o -e '--[a-z-]*' | sort -u | grep -e "^$current")
	elif [[ -z $command && -n $commands ]]; then
		mapfile -t COMPREPLY < <(sort -u <<<"$commands" | grep -e "^$current")
	fi
}

complete -o default -o bashdefault -F _paceline \
	shardd bpt-monitor bs-solve speed-predict trainctl ps-server worker ckpt straggle rowidx rec \
	predict auc
