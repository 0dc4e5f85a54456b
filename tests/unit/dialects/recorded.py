"""What each recording of the real CLIs says, written down by reading it.

A row: recording, exit code (negative: signal), lines, turns, tool calls, tool errors, cut-off steps, retries, tokens
in/out/read/written, cost in millicents, verdict, cause, where the reason stands, and of each cut-off step its text,
reasoning and tool input characters. ``-`` is unknown or none.
"""

from __future__ import annotations

from typing import Final

CLAUDE: Final = """
bad_flag                     1    0   0   0  0  0   0  -                                -  usage_error -            stderr   -
cached_usage                 0   10   1   0  0  0   0  12/350/180000/4200            6405  ok          -            -        -
denied_default               0   34   3   2  2  0   0  3600/33/0/0                   1506  ok          -            -        -
drop_late                    0   33   2   0  0  0   0  2400/7/0/0                     974  ok          -            -        -
drop_then_ok                 0   11   1   0  0  0   1  1200/5/0/0                     490  ok          -            -        -
e400                         1    4   0   0  0  0   0  0/0/0/0                          0  api_error   bad_request  result   -
e400_credit                  1    4   0   0  0  0   0  0/0/0/0                          0  api_error   billing      result   -
e401                         1   14   0   0  0  0  10  0/0/0/0                          0  api_error   auth         result   -
e401_new                     1   14   0   0  0  0  10  0/0/0/0                          0  api_error   auth         result   -
e429_forever                 1   14   0   0  0  0  10  0/0/0/0                          0  api_error   rate_limit   result   -
e500_forever                 1   14   0   0  0  0  10  0/0/0/0                          0  api_error   server_error result   -
e500_then_ok                 0   15   1   0  0  0   4  1200/8/0/0                     496  ok          -            -        -
effort_high                  0   12   1   0  0  0   0  1200/12/0/0                    504  ok          -            -        -
effort_low                   0   12   1   0  0  0   0  1200/12/0/0                    504  ok          -            -        -
empty                        0   11   2   0  0  0   0  2400/2/0/0                     964  ok          -            -        -
enrichment                   0  142   6   7  1  0   0  54/1730/112000/23600         17522  ok          -            -        -
enrichment_no_partial        0   28   6   7  1  0   0  54/1730/112000/23600         17522  ok          -            -        -
format_json                  0    1   0   0  0  0   0  4800/150/0/0                  2220  ok          -            -        -
hang_api_timeout_5s          1    6   0   0  0  0   2  0/0/0/0                          0  api_error   network      result   -
long_text                    0   62   1   0  0  0   0  1200/54135/0/0              108750  ok          -            -        -
many_turns                   0  142  13  12  0  0   0  15600/152/0/0                 6544  ok          -            -        -
max_output_8000              1   46   4   0  0  4   0  4800/56/0/0                   2032  cut_off     output_limit result   56/0/0+56/0/0+56/0/0+56/0/0
max_tokens                   1   46   4   0  0  4   0  4800/56/0/0                   2032  cut_off     output_limit result   56/0/0+56/0/0+56/0/0+56/0/0
max_tokens_new               1   46   4   0  0  4   0  4800/56/0/0                   2032  cut_off     output_limit result   56/0/0+56/0/0+56/0/0+56/0/0
max_tokens_once              0   21   2   0  0  1   0  2400/18/0/0                    996  ok          -            -        39/0/0
max_turns                    1   35   3   3  0  0   0  3600/39/0/0                   1518  unfinished  -            errors   -
no_env_flags                 0   12   1   0  0  0   0  1200/12/0/0                    504  ok          -            -        -
no_key                       1    4   0   0  0  0   0  0/0/0/0                          0  api_error   auth         result   -
no_model                     0   12   1   0  0  0   0  1200/12/0/0                    504  ok          -            -        -
no_server                    1    6   0   0  0  0   2  0/0/0/0                          0  api_error   network      result   -
no_verbose                   1    0   0   0  0  0   0  -                                -  usage_error -            stderr   -
oauth_e401                   1    6   0   0  0  0   2  0/0/0/0                          0  api_error   auth         result   -
overloaded_forever           1    6   0   0  0  0   2  0/0/0/0                          0  api_error   overloaded   result   -
overloaded_retries_1         1    5   0   0  0  0   1  0/0/0/0                          0  api_error   overloaded   result   -
overloaded_then_ok           1    6   0   0  0  0   2  0/0/0/0                          0  api_error   overloaded   result   -
overloaded_then_ok_new       1    6   0   0  0  0   2  0/0/0/0                          0  api_error   overloaded   result   -
overloaded_twice_then_ok     0   13   1   0  0  0   2  1200/8/0/0                     496  ok          -            -        -
plain                        0   12   1   0  0  0   0  1200/12/0/0                    504  ok          -            -        -
rate_limit                   0   11   1   0  0  0   1  1200/5/0/0                     490  ok          -            -        -
resume.1                     0   73   4   4  0  0   0  4800/150/0/0                  2220  ok          -            -        -
resume.2                     0   11   1   0  0  0   0  1200/9/0/0                    2718  ok          -            -        -
resume.3                     0   11   1   0  0  0   0  1200/9/0/0                    3216  ok          -            -        -
resume.5                     1    0   0   0  0  0   0  -                                -  usage_error -            stderr   -
resume_nopersist.1           0   12   1   0  0  0   0  1200/12/0/0                    504  ok          -            -        -
resume_nopersist.2           1    1   0   0  0  0   0  0/0/0/0                          0  usage_error -            errors   -
root_skip                    1    0   0   0  0  0   0  -                                -  usage_error -            stderr   -
root_skip_sandbox            0   12   1   0  0  0   0  1200/12/0/0                    504  ok          -            -        -
sigint_slow                  0   17   1   0  0  0   0  0/0/0/0                          0  signal      -            errors   -
sigkill_bash                -9   13   1   1  0  0   0  -                                -  signal      -            -        -
sigkill_group_bash          -9   12   1   1  0  0   0  -                                -  signal      -            -        -
sigkill_slow                -9   12   1   0  0  0   0  -                                -  signal      -            -        -
sigterm_group_bash         143   14   1   1  1  0   0  -                                -  signal      -            -        -
sigterm_hang               143    2   0   0  0  0   0  -                                -  signal      -            -        -
sigterm_retry              143    6   0   0  0  0   4  -                                -  signal      -            -        -
sigterm_slow               143   12   1   0  0  0   0  -                                -  signal      -            -        -
slow                         0  101   1   0  0  0   0  1200/202/0/0                   884  ok          -            -        -
slow_bash                    0   24   2   1  0  0   0  2400/25/0/0                   1010  ok          -            -        -
slow_reader                  0   14   1   0  0  0   0  -                                -  truncated   -            -        -
slow_reader_big_pipe         0   62   1   0  0  0   0  1200/54136/0/0              108752  ok          -            -        -
slow_reader_new              0   14   1   0  0  0   0  -                                -  no_result   -            -        -
stall_idle_5s               -9    5   1   0  0  0   0  -                                -  signal      -            -        -
thinking                     0   28   1   0  0  0   0  1200/49/0/0                    578  ok          -            -        -
thinking_new                 0   28   1   0  0  0   0  1200/49/0/0                    578  ok          -            -        -
todo                         0   39   2   3  3  0   0  2400/75/0/0                   1110  ok          -            -        -
tool_errors                  0   52   5   4  4  0   0  6000/50/0/0                   2500  ok          -            -        -
tools                        0   73   4   4  0  0   0  4800/150/0/0                  2220  ok          -            -        -
tools_new                    0   73   4   4  0  0   0  4800/150/0/0                  2220  ok          -            -        -
tools_no_partial             0   14   4   4  0  0   0  4800/150/0/0                  2220  ok          -            -        -
unicode                      0  263   1   0  0  0   0  1200/124/0/0                   728  ok          -            -        -
"""
OPENCODE: Final = """
auth_json                    0   15   4   4  0  0   0  4800/148/0/0                     0  ok          -            -        -
auto                         0    9   3   2  1  0   0  3600/33/0/0                      0  ok          -            -        -
bad_config                   1    0   0   0  0  0   0  -                                -  usage_error -            stderr   -
bad_flag                     1    0   0   0  0  0   0  -                                -  usage_error -            stderr   -
baseline_tools               0   15   4   4  0  0   0  4800/148/0/0                     0  ok          -            -        -
broken_json_stop             0    6   2   1  1  0   0  2400/28/0/0                      0  ok          -            -        -
continue.1                   0   15   4   4  0  0   0  4800/148/0/0                     0  ok          -            -        -
continue.2                   0    3   1   0  0  0   0  1200/9/0/0                       0  ok          -            -        -
denied                       0    9   3   2  2  0   0  3600/33/0/0                      0  ok          -            -        -
drop_rst                     0    3   1   0  0  0   0  1200/5/0/0                       0  ok          -            -        -
drop_then_ok                 0    3   1   0  0  0   0  1200/5/0/0                       0  ok          -            -        -
e400                         1    1   0   0  0  0   0  -                                -  api_error   bad_request  message  -
e401                         1    1   0   0  0  0   0  -                                -  api_error   auth         message  -
e403                         1    1   0   0  0  0   0  -                                -  api_error   auth         message  -
e500                         1    1   0   0  0  0   0  -                                -  api_error   server_error message  -
e503_then_ok                 0    3   1   0  0  0   0  1200/2/0/0                       0  ok          -            -        -
enrichment                   0   29   7   8  2  1   0  24968/33730/136064/0             0  ok          -            -        0/840/234
error_late                   1    7   2   2  0  0   0  2400/80/0/0                      0  api_error   bad_request  message  -
hang_timeout_5s              1    1   0   0  0  0   0  -                                -  api_error   unknown      message  -
length_after_work            0    9   3   2  0  1   0  3600/85/0/0                      0  cut_off     -            -        0/20/0
length_text                  0    3   1   0  0  1   0  1200/14/0/0                      0  cut_off     -            -        56/0/0
length_tool                  0    8   2   1  1  1   0  2400/42/0/0                      0  ok          -            -        23/13/260
length_tool_then_ok          0   12   4   3  1  1   0  4800/101/0/0                     0  ok          -            -        0/0/213
long_text                    0    3   1   0  0  0   0  1200/54135/0/0                   0  ok          -            -        -
many_turns                   0   39  13  12  0  0   0  15600/152/0/0                    0  ok          -            -        -
model_from_config            0    3   1   0  0  0   0  1200/12/0/0                      0  ok          -            -        -
no_config                    1    1   0   0  0  0   0  -                                -  api_error   unknown      message  -
no_config_no_model          -9    0   0   0  0  0   0  -                                -  signal      -            -        -
no_env_flags                 0    3   1   0  0  0   0  1200/12/0/0                      0  ok          -            -        -
no_finish                   -9  177  59   0  0  0   0  70800/295/0/0                    0  looping     -            -        -
no_message                   1    0   0   0  0  0   0  -                                -  usage_error -            stderr   -
no_server                    1    1   0   0  0  0   0  -                                -  api_error   network      message  -
no_thinking_flag             0    3   1   0  0  0   0  1200/33/0/0                      0  ok          -            -        -
output_64k                   0    3   1   0  0  0   0  1200/12/0/0                      0  ok          -            -        -
output_64k_flag              0    3   1   0  0  0   0  1200/12/0/0                      0  ok          -            -        -
overloaded_forever           1    1   0   0  0  0   0  -                                -  api_error   overloaded   message  -
overloaded_then_ok           0    3   1   0  0  0   0  1200/8/0/0                       0  ok          -            -        -
plain                        0    3   1   0  0  0   0  1200/12/0/0                      0  ok          -            -        -
print_logs                   0    3   1   0  0  0   0  1200/12/0/0                      0  ok          -            -        -
rate_limit                   0    3   1   0  0  0   0  1200/5/0/0                       0  ok          -            -        -
reasoning                    0    4   1   0  0  0   0  1200/33/0/0                      0  ok          -            -        -
reasoning_in_text            0    3   1   0  0  0   0  1200/15/0/0                      0  ok          -            -        -
reasoning_tokens             0    4   1   0  0  0   0  904/460/4096/0                   0  ok          -            -        -
sigint_slow                 -2    1   0   0  0  0   0  -                                -  signal      -            -        -
sigterm_group_bash         -15    1   0   0  0  0   0  -                                -  signal      -            -        -
sigterm_hang               -15    0   0   0  0  0   0  -                                -  signal      -            -        -
sigterm_retry              -15    0   0   0  0  0   0  -                                -  signal      -            -        -
sigterm_slow               -15    1   0   0  0  0   0  -                                -  signal      -            -        -
slow                         0    4   1   0  0  0   0  1200/202/0/0                     0  ok          -            -        -
slow_bash                    0    6   2   1  0  0   0  2400/25/0/0                      0  ok          -            -        -
slow_reader_big_pipe         0    3   1   0  0  0   0  1200/54135/0/0                   0  ok          -            -        -
stall_mid_stream            -9    3   0   0  0  0   2  -                                -  signal      -            -        -
throttled_reader             0    1   0   0  0  0   0  -                                -  truncated   -            -        -
todo                         0    8   2   3  2  0   0  2400/44/0/0                      0  ok          -            -        -
todo_rg                      0    8   2   3  0  0   0  2400/44/0/0                      0  ok          -            -        -
tool_errors                  0   18   6   5  5  0   0  7200/77/0/0                      0  ok          -            -        -
tool_no_args                 0    6   2   1  1  0   0  2400/6/0/0                       0  ok          -            -        -
tools                        0   15   4   4  0  0   0  4800/148/0/0                     0  ok          -            -        -
two_sessions_same_home.1     0    3   1   0  0  0   0  1200/12/0/0                      0  ok          -            -        -
two_sessions_same_home.2     0    3   1   0  0  0   0  1200/12/0/0                      0  ok          -            -        -
two_sessions_same_home.3     0    3   1   0  0  0   0  1200/12/0/0                      0  ok          -            -        -
unicode                      0    4   1   0  0  0   0  1200/124/0/0                     0  ok          -            -        -
unknown_model                1    1   0   0  0  0   0  -                                -  api_error   unknown      message  -
variant_low                  0    3   1   0  0  0   0  1200/12/0/0                      0  ok          -            -        -
"""

TRUNCATED: Final = {("claude", "slow_reader"), ("opencode", "throttled_reader")}
"""Their last line has no end."""

LAST_TOOLS: Final = {
    ("claude", "tools"): [
        "Read laws/wet_op_de_zorgtoeslag/law.yaml",
        "Edit laws/wet_op_de_zorgtoeslag/law.yaml",
        "Write .progress.json",
        "Bash wc",
    ],
    ("claude", "todo"): ["TodoWrite (error)", "Grep laws (error)", "Glob (error)"],
    ("claude", "sigterm_group_bash"): ["Bash echo (error)"],
    ("claude", "many_turns"): ["Bash echo"] * 5,
    ("opencode", "tool_errors"): [
        "read laws/bestaat_niet.yaml (error)",
        "bash echo (error)",
        "edit wet_op_de_zorgtoeslag/law.yaml (error)",
        "edit wet_op_de_zorgtoeslag/law.yaml (error)",
        "invalid (error)",
    ],
    ("opencode", "length_tool_then_ok"): [
        "read wet_op_de_zorgtoeslag/law.yaml",
        "invalid (error)",
        "edit wet_op_de_zorgtoeslag/law.yaml",
    ],
}
"""What people see of the last five tool calls."""
