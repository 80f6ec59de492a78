#!/usr/bin/zsh -f
# complete.zsh: what zsh offers for each line of standard input, when TAB is typed at its end.
#
#   tests/complete.zsh DIR    DIR holds _paceline
#
# Prints LINE -> WORD WORD... as the completion hands them to zsh, which runs in a terminal of its own.
setopt extendedglob
zmodload zsh/zpty
work=$(mktemp -d ${TMPDIR:-/tmp}/paceline-zsh.XXXXXX)
trap 'zpty -d shell 2>/dev/null; rm -rf $work' EXIT
cat >$work/setup <<'S'
PROMPT= RPROMPT= PS2=
unset zle_bracketed_paste
unsetopt prompt_sp prompt_cr
fpath=($dir $fpath)
autoload -Uz compinit
compinit -u -D
# Those that ask or strike out (-O, -A, -D) offer nothing.
compadd() {
	local word
	for word; do
		case $word in
		(-O|-A|-D) builtin compadd "$@"; return ;;
		(-|--) break ;;
		esac
	done
	local -a noted
	builtin compadd -A noted "$@"
	print -rl -- $noted >>$work/offered
	builtin compadd "$@"
}
offer() { _main_complete; compstate[insert]= compstate[list]= }
ask() {
	zle -C ask-word complete-word offer
	: >$work/offered
	BUFFER=$(<$work/line) CURSOR=$#BUFFER
	zle ask-word
	BUFFER=
	: >$work/done
	zle -R
}
zle -N ask
bindkey '^T' ask
: >$work/done
S
wait_for_it() {
	local i
	for i in {1..600}; do
		while zpty -rt shell ignored; do done 2>/dev/null
		[[ ! -e $work/done ]] || break
		sleep 0.05
	done
	rm $work/done || exit 70
}
zpty -b shell zsh -f -i
zpty -w shell "work=${(q)work} dir=${(q)1}; source $work/setup"
wait_for_it
while IFS= read -r line; do
	print -rn -- "$line" >$work/line
	zpty -n -w shell $'\x14'
	wait_for_it
	words=(${(fou)"$(<$work/offered)"})
	print -r -- "$line -> $words"
done
