# Sidekiq, a queue of jobs, against a server: ruby main.rb PORT. VARVE_TLS is a folder with ca.crt, client.crt and client.key, by
# which it speaks TLS. Ends with "sidekiq: N checks" and status 0, or with what failed.
#
#   jobs that several threads run | retries | schedules, which a script takes | bulk | statistics
#
# The server is taken to be empty.
require 'openssl'
require 'sidekiq'
require 'sidekiq/api'
require 'sidekiq/cli'
require 'sidekiq/processor'
require 'sidekiq/scheduled'
require 'timeout'

PORT = Integer(ARGV.fetch(0))
FOLDER = ENV['VARVE_TLS']
$checks = 0

def same(what, got, wanted)
  raise "#{what}: #{got.inspect}, not #{wanted.inspect}" unless got == wanted

  $checks += 1
end

def until_true(what)
  Timeout.timeout(30, RuntimeError, "in vain: #{what}") { sleep 0.01 until yield }
  $checks += 1
end

def options
  return { url: "redis://127.0.0.1:#{PORT}/0" } unless FOLDER

  read = ->(name) { File.read(File.join(FOLDER, name)) }
  certificate = OpenSSL::X509::Certificate.new(read.call('client.crt'))
  tls = { ca_file: File.join(FOLDER, 'ca.crt'), cert: certificate, key: OpenSSL::PKey.read(read.call('client.key')) }
  { url: "rediss://localhost:#{PORT}/0", ssl_params: tls }
end

Sidekiq.logger.level = Logger::FATAL
Redis.silence_deprecations = true
Sidekiq.redis = options.merge(size: 12)

# Notes that it has run.
class Note
  include Sidekiq::Worker

  def perform(list, value)
    Sidekiq.redis { |redis| redis.rpush(list, value) }
  end
end

# Fails the first time.
class FailFirst
  include Sidekiq::Worker
  sidekiq_options retry: 3
  sidekiq_retry_in { 0 }

  def perform(name)
    raise 'not yet' if Sidekiq.redis { |redis| redis.incr(name) } < 2
  end
end

def list(name)
  Sidekiq.redis { |redis| redis.lrange(name, 0, -1) }
end

# Runs jobs in some threads while the block waits for them.
def working
  settings = { queues: %w[default], concurrency: 4, labels: [], tag: 'test', environment: 'test', timeout: 5, fetch: nil }
  Sidekiq.options.merge!(settings)
  Sidekiq.options[:fetch] = Sidekiq::BasicFetch.new(Sidekiq.options)
  manager = Sidekiq::Manager.new(Sidekiq.options)
  manager.start
  yield
ensure
  manager&.quiet
  manager&.stop(Process.clock_gettime(Process::CLOCK_MONOTONIC) + 5)
end

200.times { |n| Note.perform_async('done', n) }
same('waiting', Sidekiq::Queue.new.size, 200)
working { until_true('all jobs run') { list('done').size == 200 } }
same('each once', list('done').map(&:to_i).sort, (0...200).to_a)
same('empty', Sidekiq::Queue.new.size, 0)

# Those that are due go to their queue by a script, each once, though two schedulers ask.
60.times { |n| Sidekiq::Client.push('class' => Note, 'args' => ['due', n], 'at' => Time.now.to_f - 1) }
Note.perform_in(3600, 'due', 'later')
same('scheduled', Sidekiq::ScheduledSet.new.size, 61)
2.times.map { Thread.new { Sidekiq::Scheduled::Enq.new.enqueue_jobs } }.each(&:join)
same('one is not due', Sidekiq::ScheduledSet.new.size, 1)
same('the others are in the queue', Sidekiq::Queue.new.size, 60)
working { until_true('those that were due run') { list('due').size == 60 } }
same('each due one once', list('due').map(&:to_i).sort, (0...60).to_a)

FailFirst.perform_async('tries')
working do
  until_true('it failed and waits') { Sidekiq::RetrySet.new.size == 1 }
  until_true('it is taken again') do
    Sidekiq::Scheduled::Enq.new.enqueue_jobs
    Sidekiq.redis { |redis| redis.get('tries') } == '2'
  end
end
same('no retry is left', Sidekiq::RetrySet.new.size, 0)

same('in bulk', Sidekiq::Client.push_bulk('class' => Note, 'args' => (0...500).map { |n| ['bulk', n] }).size, 500)
same('latency is a number', Sidekiq::Queue.new.latency >= 0, true)
gone = Sidekiq::Queue.new.first
gone.delete
same('one was taken out', Sidekiq::Queue.new.size, 499)
same('and is not found', Sidekiq::Queue.new.find_job(gone.jid), nil)
Sidekiq::Queue.new.clear
same('cleared', [Sidekiq::Queue.new.size, Sidekiq::Queue.all.map(&:name)], [0, []])

puts "sidekiq: #{$checks} checks"
