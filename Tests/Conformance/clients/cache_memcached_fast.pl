# Every operation of Perl's Cache::Memcached::Fast, with the answer it must give:
# perl cache_memcached_fast.pl HOST PORT. Exit status 1 and a line on standard error at the first wrong answer.
use strict;
use warnings;
use Cache::Memcached::Fast;

my $checks = 0;

# The three answers of the client: 1 (done), '' (refused) and undef (absent, or an error).
sub expect {
    my ($actual, $wanted, $what) = @_;
    $checks++;
    my ($shown, $hoped) = map { defined $_ ? "'$_'" : 'undef' } $actual, $wanted;
    return if $shown eq $hoped;
    print STDERR "$what: expected $hoped, got $shown\n";
    exit 1;
}

my $client = Cache::Memcached::Fast->new({
    servers => [{ address => "$ARGV[0]:$ARGV[1]", noreply => 0 }],
    io_timeout => 5,
    connect_timeout => 5,
    compress_threshold => 1000,
    utf8 => 1,
});
sub all_true { return 0 + grep { $_ } @{ $_[0] } }

expect((values %{ $client->flush_all })[0], 1, 'flush_all');
expect($client->set('text', 'hello'), 1, 'set');
expect(scalar $client->get('text'), 'hello', 'get');
expect(scalar $client->get('absent'), undef, 'get of an absent key');
expect($client->set('object', { list => [1, 2, 3], long => 'abc' x 5000 }), 1, 'set of an object, compressed');
expect(scalar $client->get('object')->{long}, 'abc' x 5000, 'get of an object');
expect($client->set('umlaut', "gr\x{fc}\x{df} \x{2603}"), 1, 'set of a text that is not ASCII');
expect(scalar $client->get('umlaut'), "gr\x{fc}\x{df} \x{2603}", 'get of a text that is not ASCII');
expect($client->set('empty', ''), 1, 'set of an empty value');
expect(scalar $client->get('empty'), '', 'get of an empty value');

expect(all_true([$client->set_multi(map { ["m$_", "x$_"] } 0 .. 299)]), 300, 'set_multi');
my $many = $client->get_multi(map { "m$_" } 0 .. 399);
expect(scalar keys %$many, 300, 'keys of get_multi');
expect($many->{"m$_"}, "x$_", "get_multi, m$_") for 0, 150, 299;

my $pair = $client->gets('text');
expect($pair->[1], 'hello', 'gets');
expect($client->cas('text', $pair->[0], 'world'), 1, 'cas with the right unique');
expect($client->cas('text', $pair->[0], 'moon'), '', 'cas with a stale unique');
expect(scalar keys %{ $client->gets_multi('text', 'm1', 'absent') }, 2, 'keys of gets_multi');
my $new = $client->gets_multi('m1', 'm2');
expect(all_true([$client->cas_multi(map { [$_, $new->{$_}[0], 'y'] } 'm1', 'm2')]), 2, 'cas_multi');

expect($client->add('text', 'no'), '', 'add of a present key');
expect($client->add('added', 'yes'), 1, 'add of an absent key');
expect(all_true([$client->add_multi(['added', 'x'], ['added2', 'y'])]), 1, 'add_multi');
expect($client->replace('absent', 'no'), '', 'replace of an absent key');
expect($client->replace('added', 'yes2'), 1, 'replace of a present key');
expect(all_true([$client->replace_multi(['added', 'x'], ['absent', 'y'])]), 1, 'replace_multi');
$client->set('log', 'two');
expect($client->append('log', ',three'), 1, 'append');
expect($client->prepend('log', 'one,'), 1, 'prepend');
expect(scalar $client->get('log'), 'one,two,three', 'get after append and prepend');
expect($client->append('absent', 'x'), '', 'append to an absent key');
expect(all_true([$client->append_multi(['log', '.'], ['absent', 'y'])]), 1, 'append_multi');
expect(all_true([$client->prepend_multi(['log', '.'], ['absent', 'y'])]), 1, 'prepend_multi');

$client->set('n', 10);
expect(scalar $client->incr('n', 5), 15, 'incr');
expect(scalar $client->decr('n', 20) + 0, 0, 'decr below zero');
expect(scalar $client->incr('absent', 1), '', 'incr of an absent key');
expect(($client->incr_multi(['n', 3], 'n'))[1], 4, 'incr_multi');
expect(($client->decr_multi('n', ['n', 2]))[1] + 0, 1, 'decr_multi');

expect($client->touch('log', 100), 1, 'touch');
expect($client->touch('absent', 100), '', 'touch of an absent key');
expect(all_true([$client->touch_multi(['log'], ['absent', 100])]), 1, 'touch_multi');
expect(scalar $client->gat(100, 'log'), '.one,two,three.', 'gat');
expect(scalar keys %{ $client->gat_multi(100, 'log', 'added', 'absent') }, 2, 'keys of gat_multi');
expect($client->gats(100, 'log')->[1], '.one,two,three.', 'gats');
expect(scalar keys %{ $client->gats_multi(100, 'log', 'absent') }, 1, 'keys of gats_multi');
expect($client->set('gone', 'x', -1), 1, 'set that expires at once');
expect(scalar $client->get('gone'), undef, 'get of an expired entry');

expect($client->delete('log'), 1, 'delete');
expect($client->delete('log'), '', 'second delete');
expect(all_true([$client->delete_multi('m1', 'm2', 'absent')]), 2, 'delete_multi');
expect($client->remove('m3'), 1, 'remove');

$client->set("quiet$_", $_) for 1 .. 100; # in void context the client sends noreply where that is allowed
$client->nowait_push;
expect(scalar $client->get('quiet100'), 100, 'get after sets nobody waited for');
expect((values %{ $client->server_versions })[0] =~ /^1\.6\./ ? 1 : 0, 1, 'server_versions');
expect((values %{ $client->flush_all })[0], 1, 'flush_all');
expect(scalar keys %{ $client->get_multi('text', 'added', 'm5') }, 0, 'keys of get_multi after flush_all');
$client->disconnect_all;
print "$checks checks\n";
