#!/usr/bin/env python3
"""Writes man pages from what the program says of itself: man_pages.py HGTRAIN EXIT_CODES.md OUT.1...
hgtrain.1 is of the program, hgtrain-data-prepare.1 of the command `hgtrain data prepare`."""
import os
import re
import subprocess
import sys


def said(*args):
    return subprocess.run([os.path.abspath(sys.argv[1]), *args], capture_output=True, text=True, check=True).stdout


def roff(text):
    """A line of text: no character of it is taken for a request, `code` is bold."""
    text = text.replace('\\', r'\e').replace('-', r'\-')
    text = re.sub(r'`([^`]+)`', r'\\fB\1\\fR', text)
    return r'\&' + text if text.startswith(('.', "'")) else text


def paragraphs(text):
    """Indented paragraphs are examples, which keep their lines."""
    out = []
    for paragraph in re.split(r'\n{2,}', text.strip('\n')):
        lines = paragraph.split('\n')
        example = all(line.startswith('    ') for line in lines)
        out += ['.PP', *(['.RS 4', '.nf'] if example else []), *(roff(line.strip()) for line in lines),
                *(['.fi', '.RE'] if example else [])]
    return out


def options(text):
    """Lines "  --flag TYPE   what it is" or "  ARGUMENT TYPE   what it is", the text on a line of its own under a long flag."""
    out = []
    for line in text.strip('\n').split('\n'):
        if flag := re.match(r'  (\S.*?)(?: {2,}(.*))?$', line):
            out += ['.TP', r'\fB' + roff(flag[1]) + r'\fR', *([roff(flag[2])] if flag[2] else [])]
        else:
            out.append(roff(line.strip()))
    return out


def page(name, summary, synopsis, body):
    version = said('--version').split('\n')[0]
    return '\n'.join([f'.TH {roff(name.upper())} 1 "" "{version}" "hgtrain"', '.SH NAME', roff(f'{name} ') + r'\- ' + roff(summary),
                      '.SH SYNOPSIS', r'\fB' + roff(synopsis) + r'\fR', *body]) + '\n'


def command_page(command, summary):
    text, _, flags = said('help', *command.split()).partition('\nOptions:\n')
    synopsis, _, rest = text.partition('\n\n')
    return page('hgtrain-' + command.replace(' ', '-'), summary, ' '.join(synopsis.split()),
                ['.SH DESCRIPTION', *paragraphs(rest), *(['.SH OPTIONS', *options(flags)] if flags else []),
                 '.SH SEE ALSO', r'\fBhgtrain\fR(1)'])


def program_page(commands, exit_codes):
    text = said('--help').partition('\nCommands:\n')[0]
    summary, _, rest = text.partition('\n')
    body = ['.SH DESCRIPTION', *paragraphs(rest), '.SH COMMANDS']
    for command, what in commands.items():
        body += ['.TP', rf'\fBhgtrain\-{roff(command.replace(" ", "-"))}\fR(1)', roff(what)]
    body.append('.SH EXIT STATUS')
    for code, means in re.findall(r'^\| ([\d+N]+) \| ([^|]+) \|', open(exit_codes).read(), re.M):
        body += ['.TP', roff(code), roff(means)]
    return page('hgtrain', summary.removeprefix('hgtrain ').rstrip('.'), 'hgtrain COMMAND ...', body)


commands = dict(re.findall(r'^  ([a-z]+(?: [a-z0-9]+)?)  +(\S.*)', said('--help'), re.M))
by_page = {'hgtrain-' + command.replace(' ', '-'): command for command in commands}
for out in sys.argv[3:]:
    name = os.path.basename(out).removesuffix('.1')
    with open(out, 'w') as f:
        f.write(program_page(commands, sys.argv[2]) if name == 'hgtrain' else
                command_page(by_page[name], commands[by_page[name]]))
