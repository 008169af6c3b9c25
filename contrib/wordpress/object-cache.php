<?php
/**
 * WordPress object cache on cache-daemon, through PHP's extension `memcached` and the text protocol.
 *
 * Copy it to wp-content/object-cache.php. In wp-config.php:
 *   $memcached_servers = array( array( '127.0.0.1', 11211 ) );   // or array( '/run/cache-daemon/socket', 0 )
 *   define( 'WP_CACHE_KEY_SALT', 'my-site:' );
 *
 * What a page has read or written stays at hand until it ends. Without a server, that is all there is: the site works on.
 * A flush raises a number that is part of every key of this salt, so it leaves alone what others keep on the server.
 */

function wp_cache_init() { $GLOBALS['wp_object_cache'] = new WP_Object_Cache(); }
function wp_cache_add( $key, $data, $group = '', $expire = 0 ) {
	return wp_cache()->store( 'add', $key, $data, $group, $expire );
}
function wp_cache_set( $key, $data, $group = '', $expire = 0 ) {
	return wp_cache()->store( 'set', $key, $data, $group, $expire );
}
function wp_cache_replace( $key, $data, $group = '', $expire = 0 ) {
	return wp_cache()->store( 'replace', $key, $data, $group, $expire );
}
function wp_cache_get( $key, $group = '', $force = false, &$found = null ) {
	return wp_cache()->get( $key, $group, $force, $found );
}
function wp_cache_get_multiple( $keys, $group = '', $force = false ) {
	return wp_cache()->get_multiple( $keys, $group, $force );
}
function wp_cache_delete( $key, $group = '' ) { return wp_cache()->delete( $key, $group ); }
function wp_cache_incr( $key, $offset = 1, $group = '' ) { return wp_cache()->count( $key, (int) $offset, $group ); }
function wp_cache_decr( $key, $offset = 1, $group = '' ) { return wp_cache()->count( $key, -(int) $offset, $group ); }
function wp_cache_flush() { return wp_cache()->flush(); }
function wp_cache_flush_runtime() { return wp_cache()->forget(); }
function wp_cache_supports( $feature ) {
	return in_array( $feature, array( 'get_multiple', 'flush_runtime' ), true );
}
function wp_cache_close() { return true; }
function wp_cache_add_global_groups( $groups ) { wp_cache()->add_groups( 'global', (array) $groups ); }
function wp_cache_add_non_persistent_groups( $groups ) { wp_cache()->add_groups( 'local', (array) $groups ); }
function wp_cache_switch_to_blog( $blog ) { wp_cache()->blog = (int) $blog; }

/** The cache of this request. */
function wp_cache() { return $GLOBALS['wp_object_cache']; }

class WP_Object_Cache {
	/** The blog whose keys these are, but for those of global groups. */
	public $blog = 1;
	private $server = null;
	private $salt;
	private $epoch = 0;
	private $seen = array();
	private $groups = array( 'global' => array(), 'local' => array() );

	public function __construct() {
		$this->salt = defined( 'WP_CACHE_KEY_SALT' ) ? WP_CACHE_KEY_SALT : '';
		$this->blog = function_exists( 'get_current_blog_id' ) ? get_current_blog_id() : 1;
		if ( ! class_exists( 'Memcached' ) ) {
			return;
		}
		$server = new Memcached();
		$server->setOption( Memcached::OPT_BINARY_PROTOCOL, false );
		$server->setOption( Memcached::OPT_TCP_NODELAY, true );
		$server->setOption( Memcached::OPT_CONNECT_TIMEOUT, 200 );
		$server->setOption( Memcached::OPT_LIBKETAMA_COMPATIBLE, true );
		$standard = array( array( '127.0.0.1', 11211 ) );
		$server->addServers( isset( $GLOBALS['memcached_servers'] ) ? $GLOBALS['memcached_servers'] : $standard );
		$epoch = $server->get( $this->salt . 'epoch' );
		if ( false === $epoch && Memcached::RES_NOTFOUND !== $server->getResultCode() ) {
			return;
		}
		$this->server = $server;
		$this->epoch = (int) $epoch;
	}

	public function add_groups( $kind, $groups ) {
		$this->groups[ $kind ] += array_fill_keys( $groups, true );
	}

	/** The server's name of a key: at most 250 bytes, none of them a space or a control character. */
	private function name( $key, $group ) {
		$group = $group ? $group : 'default';
		$blog = isset( $this->groups['global'][ $group ] ) ? 'global' : $this->blog;
		$name = "$this->salt$this->epoch:$blog:$group:$key";
		$plain = strlen( $name ) <= 250 && ! preg_match( '/[\x00-\x20\x7f]/', $name );
		return $plain ? $name : $this->salt . 'sha1:' . sha1( $name );
	}

	private function is_local( $group ) {
		return null === $this->server || isset( $this->groups['local'][ $group ? $group : 'default' ] );
	}

	private function copy( $data ) { return is_object( $data ) ? clone $data : $data; }

	public function store( $verb, $key, $data, $group, $expire ) {
		$name = $this->name( $key, $group );
		if ( $this->is_local( $group ) ) {
			if ( 'set' !== $verb && ( 'add' === $verb ) === array_key_exists( $name, $this->seen ) ) {
				return false;
			}
		} else {
			// Beyond 30 days a TTL would be taken for a date.
			$expire = $expire > 2592000 ? time() + $expire : max( 0, (int) $expire );
			// Wrapped, so that false is a value like any other.
			$wrapped = is_int( $data ) ? $data : array( $data );
			if ( ! $this->server->$verb( $name, $wrapped, $expire ) ) {
				unset( $this->seen[ $name ] );
				return false;
			}
		}
		$this->seen[ $name ] = $this->copy( $data );
		return true;
	}

	public function get( $key, $group, $force, &$found ) {
		$result = $this->get_multiple( array( $key ), $group, $force, $hits );
		$found = isset( $hits[ $key ] );
		return $result[ $key ];
	}

	public function get_multiple( $keys, $group, $force, &$hits = null ) {
		$result = array_fill_keys( $keys, false );
		$hits = array();
		$wanted = array();
		foreach ( $keys as $key ) {
			$name = $this->name( $key, $group );
			if ( array_key_exists( $name, $this->seen ) && ( ! $force || $this->is_local( $group ) ) ) {
				$result[ $key ] = $this->copy( $this->seen[ $name ] );
				$hits[ $key ] = true;
			} else {
				$wanted[ $name ] = $key;
			}
		}
		if ( $wanted && ! $this->is_local( $group ) ) {
			foreach ( (array) $this->server->getMulti( array_keys( $wanted ) ) as $name => $wrapped ) {
				if ( ! isset( $wanted[ $name ] ) ) {
					continue;
				}
				$this->seen[ $name ] = is_array( $wrapped ) ? $wrapped[0] : (int) $wrapped;
				$result[ $wanted[ $name ] ] = $this->copy( $this->seen[ $name ] );
				$hits[ $wanted[ $name ] ] = true;
			}
		}
		return $result;
	}

	public function delete( $key, $group ) {
		$name = $this->name( $key, $group );
		$known = array_key_exists( $name, $this->seen );
		unset( $this->seen[ $name ] );
		return $this->is_local( $group ) ? $known : $this->server->delete( $name );
	}

	public function count( $key, $offset, $group ) {
		$name = $this->name( $key, $group );
		if ( $this->is_local( $group ) ) {
			if ( ! array_key_exists( $name, $this->seen ) ) {
				return false;
			}
			return $this->seen[ $name ] = max( 0, (int) $this->seen[ $name ] + $offset );
		}
		$number = $offset < 0 ? $this->server->decrement( $name, -$offset ) : $this->server->increment( $name, $offset );
		unset( $this->seen[ $name ] );
		if ( false !== $number ) {
			$this->seen[ $name ] = $number;
		}
		return $number;
	}

	public function flush() {
		$this->forget();
		if ( null === $this->server ) {
			return true;
		}
		$this->server->add( $this->salt . 'epoch', 0 );
		$epoch = $this->server->increment( $this->salt . 'epoch' );
		$this->epoch = false === $epoch ? $this->epoch : $epoch;
		return false !== $epoch;
	}

	public function forget() {
		$this->seen = array();
		return true;
	}
}
